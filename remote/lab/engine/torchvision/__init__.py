"""Stand-in for torchvision: SGLang 0.5.9 imports it for image models only, but at the top of modules that every server
imports (multimodal/processors/qwen_vl.py:9, ernie45_vl.py:7, step3_vl.py:9). No image can be read with it.
"""

from . import transforms

__version__ = "0.0.0+stand.in"
__all__ = ["transforms"]
