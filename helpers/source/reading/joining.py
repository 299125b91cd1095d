"""In which order the taps become one tensor for the drafter."""

from __future__ import annotations

import ast

from helpers.source.reading.modules import Module, calls, functions
from helpers.source.reading.statement import Statement, unread
from helpers.source.tree import SourceTree

LOGITS = "sglang/srt/layers/logits_processor.py"
_PACK = "pack_aux_hidden_states"
_NEXT = "self._idx * self._feature_size"
_SAID = "the taps are joined along the width in the order in which they were appended: ascending layers"


def statement(tree: SourceTree) -> Statement:
    """The concatenation in the logits processor."""
    module = Module.read(tree, LOGITS)
    if module is None:
        return unread("order", f"{LOGITS} is missing or no Python")
    if packs := calls(module.tree, _PACK):
        return _packed(tree, module, packs)
    joins = [call for call in calls(module.tree, "cat") if call.args and "aux" in ast.unparse(call.args[0])]
    if not joins:
        return unread("order", f"{LOGITS} joins no taps by torch.cat")
    dims = {ast.unparse(keyword.value) for call in joins for keyword in call.keywords if keyword.arg == "dim"}
    lines = tuple(module.line(call) for call in joins)
    if dims != {"-1"}:
        return unread("order", "the taps are not joined by torch.cat(..., dim=-1)", *lines)
    return Statement("order", True, _SAID, lines)


def _packed(tree: SourceTree, logits: Module, packs: list[ast.Call]) -> Statement:
    """0.5.23: a function joins a list, and a collector writes each tap behind the one before."""
    lines = tuple(logits.line(call) for call in packs)
    path = logits.imports.get(_PACK, ("", ""))[0]
    module = Module.read(tree, path) if path else None
    work = [f for f in functions(module.tree.body) if f.name == _PACK] if module is not None else []
    joins = [call for f in work for call in calls(f, "cat") if any(ast.unparse(k) == "dim=-1" for k in call.keywords)]
    if module is None or not joins:
        return unread("order", f"{_PACK} does not join by torch.cat(..., dim=-1)", *lines)
    slots = [n for n in ast.walk(module.tree) if isinstance(n, ast.Assign) and ast.unparse(n.value) == _NEXT]
    return Statement("order", True, _SAID, (*lines, *(module.line(node) for node in (*joins, *slots))))
