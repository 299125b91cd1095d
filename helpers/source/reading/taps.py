"""Where a model taps the residual stream, and what of it: before or after the sum, a gather, as a copy or an alias.

Three forms are known: the loop over layers appends a tap itself, or hands its list to the layer, whose communicator or
stage boundary (`stages.py`) appends one. What is written in another way is said to be unread, with the line.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from helpers.source.excerpts import Line
from helpers.source.reading.launched import backend_test, off
from helpers.source.reading.modules import ClassAt, FunctionNode, Module, called, calls
from helpers.source.reading.stages import read_stage
from helpers.source.reading.statement import Statement, unread
from helpers.source.tree import SourceTree

COMMUNICATOR = "sglang/srt/layers/communicator.py"
_LISTS = "aux_hidden_states"
_HANDED = "captured_last_layer_outputs"
_CAPTURES = "prepare_attn_and_capture_last_layer_outputs"
_STREAM = ("hidden_states", "residual")


@dataclass(frozen=True)
class Tap:
    """One place that appends a tap.

    Attributes:
        value: the tensor's expression as text. condition: the nearest branch that it stands in, as text.
        gathered: the call that joins what ranks hold, None without one.
        residual: the residual is added here, so what is added to it must be whole already (``before_reduce``).
        copied: a tensor of its own, not another name of one that goes on.
        via: lines that lead from the loop to ``line``, where they are not one.
    """

    line: Line
    value: str
    condition: str
    gathered: str | None
    residual: bool
    copied: bool
    before_reduce: bool
    via: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Taps:
    """All taps of a model, and the class whose forward takes them; ``stopped``: where reading them ended."""

    taps: tuple[Tap, ...] = ()
    owner: ClassAt | None = None
    stopped: Line | None = None


def read_taps(tree: SourceTree, classes: list[ClassAt]) -> Taps:
    """The taps of the first class whose ``forward`` collects any."""
    for one in classes:
        forward = one.method("forward")
        if forward is None:
            continue
        appends = _appends(forward.body, "", {})
        layers = _layer_calls(forward)
        if appends:
            unknown = [call for call, value, _ in appends if not _known(value)]
            late = [call for call, _, _ in appends if layers and call.lineno > layers[-1].lineno]
            if unknown or late or not layers:
                return Taps(owner=one, stopped=one.module.line((unknown or late or [appends[0][0]])[0]))
            return Taps(tuple(_tap(one.module, *append) for append in appends), one)
        staged = _of_stage(tree, classes, one, layers)
        if staged:
            return Taps(staged, one)
        handed = [k for call in layers for k in call.keywords if k.arg in (_HANDED, "capture_output")]
        if handed:
            tap = _of_communicator(tree, handed[0])
            stopped = None if tap else one.module.line(handed[0].value)
            return Taps((tap,) if tap else (), one, stopped)
    return Taps()


def _layer_calls(forward: FunctionNode) -> list[ast.Call]:
    """Calls of ``layer(...)`` and ``self.layers[i](...)``, in the order of the text."""
    found = [call for call in calls(forward, "layer") if isinstance(call.func, ast.Name)]
    found += [c for c in calls(forward, "") if isinstance(c.func, ast.Subscript) and _is_layers(c.func)]
    return sorted(found, key=lambda call: call.lineno)


def _is_layers(node: ast.Subscript) -> bool:
    return ast.unparse(node.value) == "self.layers"


def statements(tree: SourceTree, classes: list[ClassAt], settings: Mapping[str, Any]) -> list[Statement]:
    """What the taps are, and what a branch for all-to-all MoE backends gathers, where the launch takes it.

    Args:
        settings: server arguments by SGLang's names.
    """
    found = read_taps(tree, classes)
    if found.owner is None or found.stopped is not None:
        names = ", ".join(one.node.name for one in classes)
        why = f"no forward of {names} takes taps in a known form"
        lines: tuple[Line, ...] = (found.stopped,) if found.stopped else ()
        return [unread("taps", why, *lines), unread("a2a", "the taps are not read", *lines)]
    plain = [tap for tap in found.taps if tap.gathered is None]
    summary = "each tap is " + "; ".join(_described(tap) for tap in plain)
    details = (("class", found.owner.node.name), ("before_reduce", any(tap.before_reduce for tap in plain)))
    said = [
        Statement(
            "taps",
            True,
            summary if plain else "every tap is gathered",
            tuple(line for tap in plain for line in (*tap.via, tap.line)),
            details,
        )
    ]
    gathered = [tap for tap in found.taps if tap.gathered is not None]
    if not gathered:
        return [*said, Statement("a2a", False, "no branch of the loop gathers a tap over ranks")]
    tap = gathered[0]
    if tap.via:
        what = f"`{tap.gathered}` where `{tap.condition}`: moved over ranks as the input of that layer's attention is"
        # Which layers move their input follows from how each one's rows are spread; that is not read.
        summary = f"a tap is {what}; whether this launch moves any is not read"
        return [*said, Statement("a2a", None, summary, (tap.line, tap.via[-1]))]
    over = ": over tokens (dim 0), not over features" if "dim=0" in (tap.gathered or "") else ""
    summary = f"under `{tap.condition}` a tap is `{tap.gathered}`{over}"
    switches = _switches(found.owner, tap.condition)
    evidence = (*(found.owner.module.line(node) for pair in switches for node in pair), tap.line)
    taken = backend_test([branch.test for branch, _ in switches], settings)
    gather = Statement("a2a", taken, summary, evidence, (("condition", tap.condition),))
    backend = settings.get("moe_a2a_backend", "none")
    if taken is False:
        return [*said, off(gather, f"moe_a2a_backend {backend}")]
    return [*said, gather if taken else replace(gather, unread=f"what decides `{tap.condition}`")]


def _described(tap: Tap) -> str:
    if tap.before_reduce or tap.residual:
        what = "with the residual added, before the next layer's norm and whatever all-reduce is left to it"
    elif "residual" in tap.value:
        what = "the residual after the norm's sum, so after the all-reduce"
    else:
        what = "as it stands before the next layer, without a residual"
    how = "a tensor of its own" if tap.copied else "the very tensor that goes on (an alias)"
    return f"`{tap.value}` where `{tap.condition}`: {what}, {how}"


Append = tuple[ast.Call, ast.expr, str]


def _appends(body: list[ast.stmt], test: str, bound: dict[str, ast.expr]) -> list[Append]:
    """(call, appended value, nearest condition) of what is appended to the list of taps, in the order of the text."""
    found: list[Append] = []
    for statement in body:
        if isinstance(statement, ast.If):
            condition = ast.unparse(statement.test)
            found += _appends(statement.body, condition, bound)
            inner = f"not ({condition})" if not test or "layers_to_capture" not in test else test
            found += _appends(statement.orelse, inner, bound)
        elif isinstance(statement, ast.For | ast.While | ast.With):
            found += _appends(statement.body, test, bound)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if "all_gather" in ast.unparse(statement.value):
                bound[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if ast.unparse(call.func) == f"{_LISTS}.append" and call.args:
                value = call.args[0]
                found.append((call, bound.get(value.id, value) if isinstance(value, ast.Name) else value, test))
    return found


def _known(value: ast.expr) -> bool:
    """Whether the expression is of the forms that are understood: the stream, its sum, a clone, a gather of those."""
    if isinstance(value, ast.Name):
        return value.id in _STREAM
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _known(value.left) and _known(value.right)
    if isinstance(value, ast.IfExp):
        return _known(value.body) and _known(value.orelse)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "clone":
        return _known(value.func.value)
    if isinstance(value, ast.Call) and "all_gather" in called(value):
        return len(value.args) == 1 and _known(value.args[0])
    return False


def _tap(module: Module, call: ast.Call, value: ast.expr, test: str) -> Tap:
    gather = next((c for c in ast.walk(value) if isinstance(c, ast.Call) and "all_gather" in called(c)), None)
    sums = [n for n in ast.walk(value) if isinstance(n, ast.BinOp)]
    return Tap(
        line=module.line(call),
        value=ast.unparse(value),
        condition=test,
        gathered=ast.unparse(gather) if gather is not None else None,
        residual=bool(sums),
        copied=not isinstance(value, ast.Name) and not (isinstance(value, ast.IfExp) and not sums),
        before_reduce=bool(sums),
    )


def _of_communicator(tree: SourceTree, handed: ast.keyword) -> Tap | None:
    """The tap that a layer's communicator takes: after `prepare_attn`, which reduces what was left unreduced."""
    module = Module.read(tree, COMMUNICATOR)
    method = None if module is None else _method(module, _CAPTURES)
    if module is None or method is None:
        return None
    prepares, appends = calls(method, "prepare_attn"), calls(method, "append")
    takes = [k for call in calls(method, "_communicate_simple_fn") for k in call.keywords if k.arg == "hidden_states"]
    copies = [call for call in calls(method, "clone") if ast.unparse(call.func) == "residual.clone"]
    if not (prepares and appends and takes and prepares[0].lineno < appends[0].lineno):
        return None
    if ast.unparse(takes[0].value) != "residual":
        return None
    condition = ast.unparse(handed.value.test) if isinstance(handed.value, ast.IfExp) else "always"
    return Tap(module.line(appends[0]), "residual", condition, None, False, bool(copies), False)


def _of_stage(tree: SourceTree, classes: list[ClassAt], owner: ClassAt, layers: list[ast.Call]) -> tuple[Tap, ...]:
    """The tap that a layer's stage boundary hands over, and the same one moved over ranks."""
    found = read_stage(tree, classes, owner, layers)
    if found is None:
        return ()
    plain = Tap(found.line, found.value, found.condition, None, False, found.copied, False, found.via)
    if found.move is None or found.moved is None:
        return (plain,)
    return plain, Tap(found.moved, found.value, "move is not None", found.move, False, True, False, (found.line,))


def _method(module: Module, name: str) -> FunctionNode | None:
    return next((n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef) and n.name == name), None)


def _switches(owner: ClassAt, condition: str) -> list[tuple[ast.If, ast.Assign]]:
    """Where the flag of a condition (``self.enable_a2a_moe``) is switched on, and under what."""
    init = owner.method("__init__")
    branches = [node for node in ast.walk(init) if isinstance(node, ast.If)] if init is not None else []
    found = []
    for node in branches:
        for inner in node.body:
            on = isinstance(inner, ast.Assign) and ast.unparse(inner.value) == "True"
            if on and isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) in condition.split():
                found.append((node, inner))
    return found
