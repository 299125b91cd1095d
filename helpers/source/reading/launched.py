"""What a statement about the source comes to in one launch: a branch that is there, and is not taken, does not hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from helpers.source.reading.conditions import UNKNOWN, evaluate
from helpers.source.reading.statement import Statement

_BACKEND = re.compile(r"get_moe_a2a_backend\(\)\.is_(\w+)\(\)")


def graphs_on(settings: Mapping[str, Any]) -> bool:
    """Whether passes of a launch are captured as CUDA graphs."""
    return not settings.get("disable_cuda_graph") and settings.get("device") in (None, "cuda")


def backend_test(tests: Iterable[ast.expr], settings: Mapping[str, Any]) -> bool | None:
    """Whether a launch's all-to-all backend passes any of ``tests``; None where that asks for something else.

    >>> test = ast.parse("get_moe_a2a_backend().is_deepep() or get_moe_a2a_backend().is_mooncake()", mode="eval").body
    >>> [backend_test([test], {"moe_a2a_backend": name}) for name in ("none", "deepep")]
    [False, True]
    """
    backend = settings.get("moe_a2a_backend", "none")
    found = []
    for test in tests:
        names = {met[0]: met[1] == backend for met in _BACKEND.finditer(ast.unparse(test))}
        found.append(evaluate(test, names))
    if any(value is not UNKNOWN and value for value in found):
        return True
    return None if not found or UNKNOWN in found else False


def off(statement: Statement, why: str) -> Statement:
    """The same branch, which this launch does not take."""
    return replace(statement, holds=False, summary=f"off for this launch ({why}); where it is on, {statement.summary}")


def graphs_for(statement: Statement, settings: Mapping[str, Any]) -> Statement:
    """Graphs that are not captured tap nothing."""
    if not statement.holds or graphs_on(settings):
        return statement
    device = settings.get("device")
    return off(statement, "no CUDA graphs: " + (f"--device {device}" if device not in (None, "cuda") else "disabled"))


def overlap_for(statement: Statement, settings: Mapping[str, Any]) -> Statement:
    """Layers run outside the loop only where two batches may overlap."""
    asked = settings.get("enable_two_batch_overlap")
    return statement if not statement.holds or asked else off(statement, "no --enable-two-batch-overlap")
