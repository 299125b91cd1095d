"""``triton.jit`` and what it makes of a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# How triton runs a kernel, and nothing that the kernel computes with.
_LAUNCH_OPTIONS = {"num_warps", "num_stages", "num_ctas"}


class JITFunction:
    """A kernel as SGLang declares it: its body is never run, a launch goes to the engine's torch version of it.

    Example:
        ``kernel[(2,)](x, BLOCK=4, num_warps=8)`` calls the torch version as ``replacement((2,), x, BLOCK=4)``.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        from cpu_engine.kernels import replacement  # type: ignore[import-not-found,unused-ignore]

        compute = replacement(self.fn)

        def launch(*arguments: Any, **keywords: Any) -> None:
            compute(
                grid, *arguments, **{name: value for name, value in keywords.items() if name not in _LAUNCH_OPTIONS}
            )

        return launch

    def __call__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            f"{self.fn.__module__}.{self.fn.__qualname__} is a triton function: it runs inside kernels only"
        )


def jit(fn: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Declares a kernel: ``@triton.jit`` and ``@triton.jit(do_not_specialize=[...])``."""
    return JITFunction if fn is None else JITFunction(fn)
