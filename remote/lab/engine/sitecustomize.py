"""Runs in every Python whose PYTHONPATH holds this folder, so also in the children that SGLang spawns.

Where ``SGLANG_USE_CPU_ENGINE=1`` (environment.py) it makes SGLang 0.5.9 fit for a plain CPU: each patch of
``cpu_engine.patches`` runs right after the module that it belongs to was imported. Any other Python pays for one
lookup in its environment, and for one in a small table at each import where the variable is set.
"""

import os

if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    from cpu_engine import install  # type: ignore[import-not-found,unused-ignore]

    install()
