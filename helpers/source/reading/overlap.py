"""Two-batch overlap: layers that run outside the loop are not tapped."""

from __future__ import annotations

import ast

from helpers.source.reading.modules import ClassAt, called
from helpers.source.reading.statement import Statement
from helpers.source.reading.taps import read_taps
from helpers.source.tree import SourceTree

_TEST = "forward_batch.can_run_tbo"


def statement(tree: SourceTree, classes: list[ClassAt]) -> Statement:
    """``holds``: under two-batch overlap layers are run elsewhere than in the loop that takes the taps."""
    owner = read_taps(tree, classes).owner
    forward = owner.method("forward") if owner is not None else None
    if owner is None or forward is None:
        return Statement("overlap", None, "not read: the taps are not read", unread="the taps are not read")
    tests = [n for n in ast.walk(forward) if isinstance(n, ast.If) and ast.unparse(n.test) == _TEST]
    runs = [
        c for c in ast.walk(forward) if isinstance(c, ast.Call) and called(c).startswith("model_forward") and c.keywords
    ]
    if not runs:
        return Statement("overlap", False, "every layer runs in the loop that takes the taps")
    given = {ast.unparse(k.value) for call in runs for k in call.keywords}
    if any("aux_hidden_states" in value or "capture" in value for value in given):
        return Statement("overlap", False, "layers that overlap are given the taps too", (owner.module.line(runs[0]),))
    lines = tuple(owner.module.line(node) for node in (*tests[:1], runs[0]))
    said = f"with two-batch overlap layers run in `{called(runs[0])}`, outside the loop: no tap is taken there"
    return Statement("overlap", True, said, lines)
