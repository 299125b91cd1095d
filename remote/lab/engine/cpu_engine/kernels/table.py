"""Which kernel of SGLang is computed by which function, and the error for all others."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..change import EngineMismatch, arguments, require
from .cache_rows import copy_all_layer_kv_cache_tiled
from .cache_slots import assign_draft_cache_locs, assign_req_to_token_pool
from .draft_extend import create_extend_after_decode_spec_info

CODE = "WB-ENGINE-KERNEL"
_SPEC_UTILS = "sglang.srt.speculative.spec_utils"

# A kernel's module and name -> its torch version: the launch grid first, then the kernel's own arguments.
KERNELS: dict[tuple[str, str], Callable[..., None]] = {
    (_SPEC_UTILS, "create_extend_after_decode_spec_info"): create_extend_after_decode_spec_info,
    (_SPEC_UTILS, "assign_req_to_token_pool"): assign_req_to_token_pool,
    (_SPEC_UTILS, "assign_draft_cache_locs"): assign_draft_cache_locs,
    ("sglang.srt.mem_cache.memory_pool", "copy_all_layer_kv_cache_tiled"): copy_all_layer_kv_cache_tiled,
}


class MissingKernel(RuntimeError):
    """SGLang launched a triton kernel that has no torch version here."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        code = kernel.__code__
        super().__init__(
            f"{CODE}: SGLang launched the triton kernel {kernel.__module__}.{kernel.__qualname__} "
            f"({code.co_filename}:{code.co_firstlineno}), which has no torch version in the CPU engine\n"
            f"  expected: one of {', '.join(sorted(name for _, name in KERNELS))}\n"
            "  next: leave out the server flag that asks for it (data/profiles/lab.toml has flags that work), "
            "or add the kernel to remote/lab/engine/cpu_engine/kernels/"
        )


def replacement(kernel: Callable[..., Any]) -> Callable[..., None]:
    """The torch version of a kernel, called with the launch grid and then as the kernel is.

    Raises:
        MissingKernel: there is none.
    """
    found = KERNELS.get((kernel.__module__, kernel.__qualname__))
    if found is None:
        raise MissingKernel(kernel)
    return found


def require_kernels(module: ModuleType) -> None:
    """Checks at import that SGLang's kernels take the arguments that our versions take.

    Raises:
        EngineMismatch: a kernel is missing or takes other arguments.
    """
    for (owner, name), ours in KERNELS.items():
        if owner != module.__name__:
            continue
        present, expected = arguments(require(module, name).fn), arguments(ours)[1:]
        if present != expected:
            raise EngineMismatch(f"kernel {owner}.{name} takes ({', '.join(present)})", f"({', '.join(expected)})")
