"""Stand-in for triton (1 GB): SGLang's kernels can be declared and imported here, and are computed by torch.

SGLang imports triton at the top of some 80 modules, of which a CPU server needs about 30 (such as
speculative/spec_utils.py:10, mem_cache/common.py:7, mem_cache/allocator.py:26, layers/logits_processor.py:21) and uses
``jit``, ``autotune``, ``heuristics`` and ``Config`` to declare kernels, and ``cdiv`` and ``next_power_of_2`` on the
host. What is asked for beyond this fails with an AttributeError or ImportError.
"""

from . import language
from .runtime.autotuner import Config, autotune, heuristics
from .runtime.jit import JITFunction, jit

__version__ = "0.0.0+stand.in"
__all__ = ["Config", "JITFunction", "autotune", "cdiv", "heuristics", "jit", "language", "next_power_of_2"]


def cdiv(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of 2 that is not below n (1 for n = 0)."""
    return 1 << max(n - 1, 0).bit_length()
