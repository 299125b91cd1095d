"""Lets the unmodified SGLang 0.5.9 serve DeepseekV3 with EAGLE-3 on a plain CPU: no CUDA, no AMX, no triton.

Nothing of SGLang is edited on disk. ``patches.py`` lists what is changed in memory, module by module; one package per
concept holds the code: ``attention``, ``speculation``, ``kernels`` (torch for triton). File and line numbers in the
docstrings are those of the PyPI wheel ``sglang==0.5.9``, below ``sglang/srt/``.
"""

from .patches import ABSENT, PATCHES
from .post_import import PostImportFinder


def install() -> None:
    """Puts the post-import hook in front of Python's finders. Imports neither torch nor SGLang."""
    PostImportFinder(PATCHES, ABSENT).install()
