"""In which order the taps become one tensor for the drafter."""

from __future__ import annotations

import ast

from helpers.source.reading.modules import Module, calls
from helpers.source.reading.statement import Statement, unread
from helpers.source.tree import SourceTree

LOGITS = "sglang/srt/layers/logits_processor.py"


def statement(tree: SourceTree) -> Statement:
    """The concatenation in the logits processor."""
    module = Module.read(tree, LOGITS)
    if module is None:
        return unread("order", f"{LOGITS} is missing or no Python")
    joins = [call for call in calls(module.tree, "cat") if call.args and "aux" in ast.unparse(call.args[0])]
    if not joins:
        return unread("order", f"{LOGITS} joins no taps by torch.cat")
    dims = {ast.unparse(keyword.value) for call in joins for keyword in call.keywords if keyword.arg == "dim"}
    lines = tuple(module.line(call) for call in joins)
    if dims != {"-1"}:
        return unread("order", "the taps are not joined by torch.cat(..., dim=-1)", *lines)
    said = "the taps are joined along the width in the order in which they were appended: ascending layers"
    return Statement("order", True, said, lines)
