"""Fused all-reduce where the launch arguments are resolved by passes (0.5.23) instead of in ``server_args.py``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from helpers.source.excerpts import Line
from helpers.source.reading.conditions import UNKNOWN, evaluate, unknown_terms
from helpers.source.reading.modules import ClassAt, Module, functions
from helpers.source.reading.statement import Statement, unread
from helpers.source.reading.taps import read_taps
from helpers.source.tree import SourceTree

OVERRIDES = "sglang/srt/arg_groups/overrides.py"
ADD_NORM = "sglang/srt/layers/layer_boundary/residual/add_norm.py"
_BACKEND = "flashinfer_allreduce_fusion_backend"
_APPLIES = "flashinfer_ar_fusion_applies"
_LIMIT = "FUSE_ALLREDUCE_MAX_BATCH_SIZE"


def statement(
    tree: SourceTree,
    classes: list[ClassAt],
    architecture: str,
    settings: Mapping[str, Any],
    chip: tuple[int, int] | None,
) -> Statement:
    """Whether the pass switches fusion on for this launch, and whether a tap comes before or after it.

    Args:
        chip: compute capability; None where it is not known, (0, 0) where there is no GPU.
    """
    module, kernels = Module.read(tree, OVERRIDES), Module.read(tree, ADD_NORM)
    found = _switch(module) if module is not None else None
    applies = next((f for f in functions(kernels.tree.body) if f.name == _APPLIES), None) if kernels else None
    if module is None or found is None or kernels is None or applies is None:
        return unread("fusion", f"neither server_args.py nor {OVERRIDES} decides it in a known form")
    function, test, gives = found
    taps = read_taps(tree, classes).taps
    spoils = any(tap.before_reduce for tap in taps) if taps else None
    limit = next((_number(n.value) for n in kernels.tree.body if isinstance(n, ast.Assign) and _is(n, _LIMIT)), None)
    lines: tuple[Line, ...] = (module.line(test), module.line(gives), kernels.line(applies))
    lines += tuple(tap.line for tap in taps[:1])
    details = (("max_tokens", limit), ("architecture", architecture), ("spoils_taps", spoils))
    on = _on(module, function, test, architecture, settings, chip)
    where = {False: "after it: whole", True: "before it: one rank's part", None: "at a place that is not read"}[spoils]
    if on is UNKNOWN:
        why = "it depends on " + ", ".join(f"`{t}`" for t in _open_terms(module, function, test, architecture, chip))
        said = f"fused all-reduce may be on in passes of up to {limit} tokens: {why}; the tap is taken {where}"
        return Statement("fusion", None, said, lines, details, why)
    if not on:
        return Statement("fusion", False, "all-reduce fusion is off for this launch", lines[:2], details)
    said = (
        f"the all-reduce is fused into the next layer in passes of up to {limit} tokens, and the tap is taken {where}"
    )
    return Statement("fusion", True, said, lines, details)


def _switch(module: Module) -> tuple[ast.FunctionDef, ast.expr, ast.Return] | None:
    """The pass that chooses a backend by itself: its function, the condition, the line that returns the choice."""
    for function in functions(module.tree.body):
        for node in ast.walk(function):
            for inner in node.body if isinstance(node, ast.If) else ():
                if isinstance(node, ast.If) and isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
                    given = zip(inner.value.keys, inner.value.values, strict=True)
                    chosen = [v for k, v in given if isinstance(k, ast.Constant) and k.value == _BACKEND]
                    none = all(isinstance(v, ast.Constant) and v.value is None for v in chosen)
                    if chosen and not none and isinstance(function, ast.FunctionDef):
                        return function, node.test, inner
    return None


def _on(
    module: Module,
    function: ast.FunctionDef,
    test: ast.expr,
    architecture: str,
    settings: Mapping[str, Any],
    chip: tuple[int, int] | None,
) -> Any:
    if settings.get("enforce_disable_flashinfer_allreduce_fusion") or settings.get("tp_size", 1) == 1:
        return False
    if settings.get("enable_flashinfer_allreduce_fusion") or settings.get(_BACKEND) is not None:
        return True if chip is None else chip[0] in (9, 10)
    return evaluate(test, _known(module, function, architecture, settings, chip))


def _open_terms(
    module: Module, function: ast.FunctionDef, test: ast.expr, architecture: str, chip: tuple[int, int] | None
) -> list[str]:
    return unknown_terms(test, _known(module, function, architecture, {}, chip)) or ["the launch"]


def _known(
    module: Module,
    function: ast.FunctionDef,
    architecture: str,
    settings: Mapping[str, Any],
    chip: tuple[int, int] | None,
) -> dict[str, Any]:
    known: dict[str, Any] = {f"view.{name}": value for name, value in settings.items()}
    known[f"view.{_BACKEND}"] = settings.get(_BACKEND)
    known["model_arch"] = architecture
    if settings:
        known["attn_dp_enabled_of(view)"] = bool(settings.get("enable_dp_attention"))
    if chip is not None:
        known["get_platform().is_sm90"] = chip[0] == 9
        known["get_platform().is_sm100"] = chip[0] == 10
        known["get_platform().is_blackwell"] = chip[0] >= 10
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
            known[ast.unparse(node.targets[0])] = evaluate(node.value.args[0], {})  # frozenset({...})
    for stmt in function.body:
        if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name) and stmt.targets[0].id not in known:
            known[stmt.targets[0].id] = evaluate(stmt.value, known)
    return {name: value for name, value in known.items() if value is not UNKNOWN}


def _is(node: ast.Assign, name: str) -> bool:
    return ast.unparse(node.targets[0]) == name


def _number(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
