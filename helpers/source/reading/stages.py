"""Taps of an engine whose layers are built of stage boundaries (0.5.23): the boundary itself hands the tap over.

The loop gives a layer its collector, the layer gives it to ``attn_boundary.prepare``, and the stage calls it with the
residual once that is complete. All three links are read; where one of them is written in another way, there is no tap.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from helpers.source.excerpts import Line
from helpers.source.reading.modules import ClassAt, Module, calls, functions
from helpers.source.tree import SourceTree

STAGE = "sglang/srt/layers/layer_boundary/stage.py"
COLLECTORS = "sglang/srt/layers/aux_hidden_states.py"
_HANDED = ("captured_last_layer_outputs", "capture_output")
_SINKS = ("capture", "capture_gathered")


@dataclass(frozen=True)
class StageTap:
    """What a stage hands over.

    Attributes:
        condition: under which the loop gives a layer the collector. via: from the loop to the stage, the line that
            completes the sums last. line: where the stage calls the collector, with ``value``.
        move: what moves the tap over ranks first, where the layer's own input is moved; at ``moved``.
        copied: the collector copies what it is given, unless it is told that the tensor is its own.
    """

    condition: str
    via: tuple[Line, ...]
    line: Line
    value: str
    move: str | None
    moved: Line | None
    copied: bool


def read_stage(tree: SourceTree, classes: list[ClassAt], owner: ClassAt, layers: list[ast.Call]) -> StageTap | None:
    """The tap of a loop that gives its layers a collector; None where a link is missing or has another form."""
    handed = [k for call in layers for k in call.keywords if k.arg in _HANDED]
    stage = Module.read(tree, STAGE)
    if len(handed) != 1 or stage is None or not isinstance(handed[0].value, ast.IfExp):
        return None
    given = _prepared(classes, str(handed[0].arg))
    found = None if given is None else _handed_over(stage, given[1])
    if given is None or found is None:
        return None
    via = (owner.module.line(handed[0].value), given[0], stage.line(found.completes))
    return StageTap(
        ast.unparse(handed[0].value.test),
        via,
        stage.line(found.call),
        "stream.residual",
        ast.unparse(found.move) if found.move is not None else None,
        stage.line(found.move) if found.move is not None else None,
        _copies(tree),
    )


def _prepared(classes: list[ClassAt], parameter: str) -> tuple[Line, str] | None:
    """Where the layers of the nearest file give that parameter to their boundary, and as what."""
    for module in dict.fromkeys(one.module.path for one in classes):
        here = next(one.module for one in classes if one.module.path == module)
        found = []
        for node in here.tree.body:
            forward = ClassAt(here, node).method("forward") if isinstance(node, ast.ClassDef) else None
            if forward is None or parameter not in {a.arg for a in (*forward.args.args, *forward.args.kwonlyargs)}:
                continue
            given = [
                (here.line(call), str(k.arg))
                for call in calls(forward, "prepare")
                if ast.unparse(call.func) == "self.attn_boundary.prepare"
                for k in call.keywords
                if k.arg in _SINKS and ast.unparse(k.value) == parameter
            ]
            if len(given) != 1:
                return None
            found += given
        if found:
            return found[0] if len({sink for _, sink in found}) == 1 else None
    return None


@dataclass(frozen=True)
class _Handing:
    completes: ast.Call
    call: ast.Call
    move: ast.Call | None


def _handed_over(stage: Module, sink: str) -> _Handing | None:
    """In ``_prepare_attention``: the sums completed, the residual written, and then given to the sink."""
    work = next((f for f in _methods(stage) if f.name == "_prepare_attention"), None)
    if work is None:
        return None
    names = {sink, f"{sink}.capture"}
    completes, writes = calls(work, "complete"), calls(work, "_prepare")
    handings = [c for c in ast.walk(work) if isinstance(c, ast.Call) and ast.unparse(c.func) in names and c.args]
    late = sorted((c for c in handings if writes and c.lineno > writes[0].lineno), key=lambda c: c.lineno)
    if not completes or not late or completes[0].lineno > writes[0].lineno:
        return None
    held = _held(work, late[0].args[0])
    if held is None:
        return None
    return _Handing(completes[0], late[0], held[1])


def _held(work: ast.AST, value: ast.expr) -> tuple[ast.expr, ast.Call | None] | None:
    """Whether a name holds the stream's residual, and the call that moves it on its way there."""
    move: ast.Call | None = None
    for _ in range(4):
        if ast.unparse(value) == "stream.residual":
            return value, move
        if not isinstance(value, ast.Name):
            return None
        name = value.id
        given = [
            n.value
            for n in ast.walk(work)
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
        ]
        plain = [g for g in given if not isinstance(g, ast.Call)]
        moving = [g for g in given if isinstance(g, ast.Call) and ast.unparse(g.func) == "move"]
        if len(plain) == 1 and isinstance(plain[0], ast.IfExp) and isinstance(plain[0].orelse, ast.Call):
            move, value = plain[0].orelse, plain[0].body
        elif plain:
            # `value, previous = ...` of the early branch is no plain target; what is left is the residual's.
            move, value = (moving[0] if moving else move), plain[-1]
        else:
            return None
    return None


def _copies(tree: SourceTree) -> bool:
    """Whether every collector copies what it does not own."""
    module = Module.read(tree, COLLECTORS)
    captures = [f for f in _methods(module) if f.name == "capture"] if module is not None else []
    return bool(captures) and all(calls(f, "clone") or calls(f, "append") for f in captures)


def _methods(module: Module) -> list[ast.FunctionDef]:
    found = [f for node in module.tree.body if isinstance(node, ast.ClassDef) for f in functions(node.body)]
    return [f for f in found if isinstance(f, ast.FunctionDef)]
