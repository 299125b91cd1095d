"""Names of the kernel language: annotations, types and functions that modules keep under a name of their own (such as
``exp = tl.exp``, layers/attention/fla/op.py:19). None of them computes anything: no kernel body is run.
"""

from __future__ import annotations

from . import extra

__all__ = ["Symbol", "constexpr", "extra"]


class constexpr:
    """Marks an argument that is known at compile time; also wraps module-level constants."""

    def __init__(self, value: object = None) -> None:
        self.value = value


class Symbol:
    """Any other name of the language."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Symbol:
        """Names below a name, such as ``math.exp2``."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol(f"{self.name}.{name}")

    def __call__(self, *_: object, **__: object) -> None:
        raise TypeError(f"triton.language.{self.name} runs inside kernels only, and none is run on a CPU")


def __getattr__(name: str) -> Symbol:
    if name.startswith("__"):
        raise AttributeError(name)
    return Symbol(name)
