"""The drafter's class: what its fc takes, when it is skipped, and which names of a checkpoint it claims."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from helpers.source.excerpts import Line
from helpers.source.reading.modules import ClassAt, Module, calls
from helpers.source.reading.statement import Statement, unread
from helpers.source.tree import SourceTree

EAGLE3 = "LlamaForCausalLMEagle3"


@dataclass(frozen=True)
class Drafter:
    """What is read of an EAGLE-3 drafter's class.

    Attributes:
        slots: how many blocks of the hidden size its fc takes (None: not a number in the source), at ``fc``.
        skip: the test under which fc runs; without it the input goes on as it is.
        parts: names of the modules that its model holds (``midlayer``, ``norm``, ...).
        renames: names that its loader takes for others, as (stored, meant). loads: where its loader starts.
    """

    slots: int | None
    fc: Line | None
    skip: Line | None
    parts: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    loads: Line | None


def read_drafter(tree: SourceTree, architecture: str = EAGLE3) -> Drafter | None:
    """The drafter ``architecture``; None where no such class is found or it has no fc of its own."""
    path = tree.find_class(architecture)
    module = Module.read(tree, path) if path else None
    entry = module.class_def(architecture) if module else None
    if module is None or entry is None:
        return None
    for node in module.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        init, forward = ClassAt(module, node).method("__init__"), ClassAt(module, node).method("forward")
        made = _made(init) if init is not None else {}
        if "fc" not in made or forward is None:
            continue
        skips = [inner for inner in ast.walk(forward) if isinstance(inner, ast.If) and calls(inner, "fc")]
        loader = ClassAt(module, entry).method("load_weights")
        return Drafter(
            slots=_slots(made["fc"]),
            fc=module.line(made["fc"]),
            skip=module.line(skips[0]) if skips else None,
            parts=tuple(sorted(made)),
            renames=_renames(loader) if loader is not None else (),
            loads=module.line(loader) if loader is not None else None,
        )
    return None


def statement(tree: SourceTree, architecture: str = EAGLE3) -> Statement:
    """Its fc and when it is skipped."""
    drafter = read_drafter(tree, architecture)
    if drafter is None or drafter.fc is None:
        return unread("drafter", f"no class {architecture} with an fc of its own is found under the models")
    width = f"{drafter.slots} slots of the hidden size" if drafter.slots else "a width that the source computes"
    details = (("slots", drafter.slots), ("parts", list(drafter.parts)))
    if drafter.skip is None:
        return Statement("drafter", False, f"fc takes {width}, and always runs", (drafter.fc,), details)
    said = f"fc takes {width}; it is skipped without a word where its input is as wide as the embedding"
    return Statement("drafter", True, said, (drafter.fc, drafter.skip), details)


def _made(init: ast.AST) -> dict[str, ast.Call]:
    """Attributes that ``__init__`` makes by a call."""
    found = {}
    for node in ast.walk(init):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found[target.attr] = node.value
    return found


def _renames(loader: ast.AST) -> tuple[tuple[str, str], ...]:
    """Pairs of names in the dictionaries that the loader writes out."""
    pairs = []
    for node in ast.walk(loader):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(key.value, str):
                pairs.append((key.value, str(value.value)))
    return tuple(pairs)


def _slots(call: ast.Call) -> int | None:
    """The number by which the first argument multiplies a size."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Mult):
        for side in (first.left, first.right):
            if isinstance(side, ast.Constant) and isinstance(side.value, int):
                return side.value
    return None
