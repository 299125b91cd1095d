"""Changes in SGLang's modules that are refused where SGLang does not look as the change expects."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

CODE = "WB-ENGINE-MISMATCH"


class EngineMismatch(SystemExit):
    """SGLang is not what the CPU engine was written for: the process ends with this message and status 1.

    A SystemExit, since SGLang catches Exception around some imports (models/registry.py:104) and would go on serving
    half-patched.
    """

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(
            f"{CODE}: {what}\n"
            f"  expected: {expected}\n"
            "  next: serve with sglang==0.5.9 (make setup), and undo edits of the checkout that remove this name"
        )


def require(owner: Any, name: str) -> Any:
    """``owner.name``, which must be there.

    Raises:
        EngineMismatch: it is not.
    """
    try:
        return getattr(owner, name)
    except AttributeError:
        raise EngineMismatch(f"{_title(owner)} has no {name}", f"sglang 0.5.9's {name}") from None


def replace(owner: Any, name: str, value: Any) -> None:
    """Sets ``owner.name`` in the place of what SGLang has there; a function must take the same arguments.

    Raises:
        EngineMismatch: the name is missing, or the arguments differ.
    """
    present = require(owner, name)
    if isinstance(present, FunctionType) and isinstance(value, FunctionType):
        _require_same_arguments(f"{_title(owner)}.{name}", arguments(present), arguments(value))
    setattr(owner, name, value)


def provide(owner: Any, name: str, value: Any, used_by: str) -> None:
    """Sets a name that SGLang imports on CUDA only, and that its function ``used_by`` calls all the same.

    Args:
        owner: the module.
        name: the global that is missing on a CPU.
        value: what to put there.
        used_by: dotted name of the function in ``owner`` that calls it.

    Raises:
        EngineMismatch: no such function, or it does not use the name.
    """
    function = owner
    for part in used_by.split("."):
        function = require(function, part)
    if name not in function.__code__.co_names:
        raise EngineMismatch(f"{_title(owner)}.{used_by} does not call {name}", f"a call of {name}, as in 0.5.9")
    setattr(owner, name, value)


def arguments(function: Any) -> list[str]:
    """The argument names of a function, in order."""
    return list(inspect.signature(function).parameters)


def _require_same_arguments(title: str, present: list[str], ours: list[str]) -> None:
    if present != ours:
        raise EngineMismatch(f"{title} takes ({', '.join(present)})", f"({', '.join(ours)}), as in sglang 0.5.9")


def _title(owner: Any) -> str:
    return str(getattr(owner, "__name__", owner))
