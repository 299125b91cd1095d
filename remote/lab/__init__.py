"""The lab: a box on the loopback, reached over SSH, that runs the real SGLang on a CPU.

`python -m remote.lab up|status|down` is its only door. Nothing here imports `helpers`.
"""
