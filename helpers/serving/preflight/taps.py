"""What ids tap in the target, as the setter's own source says; read once for the ids in force and once for none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from helpers.errors import UsageError
from helpers.source import setter
from helpers.source.excerpts import Line
from helpers.source.reading.modules import ClassAt, model_classes
from helpers.source.setter import Trap
from helpers.source.tree import MODELS, SourceTree

Ids = Sequence[int] | None


@dataclass(frozen=True)
class Tapped:
    """What ids tap.

    Attributes:
        ids: in force, the engine's own where none were given. boundaries: in tap order, empty where unread.
        rule: in words. lines: the evidence. traps: what is wrong with the ids.
        unread: why it could not be read, else empty.
    """

    ids: tuple[int, ...] = ()
    boundaries: tuple[int, ...] = ()
    rule: str = ""
    lines: tuple[Line, ...] = ()
    traps: tuple[Trap, ...] = ()
    unread: str = ""


def tapped(source: SourceTree, architecture: str, wanted: Sequence[Ids], layers: int) -> list[Tapped]:
    """What each list of ids taps in ``architecture``: by its own setter, else by that of its inner model."""
    tree, classes = setter.SourceTree(source.root), model_classes(source, architecture)
    return [_tapped(tree, classes, architecture, ids, layers) for ids in wanted]


def _tapped(tree: setter.SourceTree, classes: list[ClassAt], architecture: str, ids: Ids, layers: int) -> Tapped:
    problem = f"no class that {architecture} is made of has a setter"
    for one in classes:
        stem = PurePosixPath(one.module.path).relative_to(MODELS).with_suffix("").as_posix()
        try:
            found = setter.resolve(tree, stem, ids, layers, architecture=one.node.name)
        except UsageError as error:
            if error.code == "WB-SETTER-MISSING":
                continue
            problem = error.message
            break
        lines = tuple(Line(place.file, place.line, place.text) for place in found.evidence)
        return Tapped(found.ids, found.boundaries, found.rule, lines, found.traps)
    return Tapped(unread=problem)
