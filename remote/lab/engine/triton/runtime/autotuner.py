"""``autotune`` and ``heuristics``: there is nothing to tune, the kernel passes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kernel = TypeVar("Kernel")


class Config:
    """One choice of block sizes that SGLang offers to the tuner (such as layers/attention/fla/cumsum.py:73)."""

    def __init__(self, kwargs: dict[str, Any], **options: Any) -> None:
        self.kwargs = kwargs
        self.options = options


def autotune(*_: Any, **__: Any) -> Callable[[Kernel], Kernel]:
    """Leaves the kernel as it is."""
    return lambda kernel: kernel


heuristics = autotune
