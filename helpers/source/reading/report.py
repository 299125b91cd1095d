"""The wiring of one launch, read from the source that would serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.source.reading import allreduce, drafter, graphs, joining, overlap, taps
from helpers.source.reading.allreduce import Chip
from helpers.source.reading.launched import graphs_for, overlap_for
from helpers.source.reading.modules import ClassAt, model_classes
from helpers.source.reading.statement import Statement, Topic, unread
from helpers.source.tree import SourceTree

_OF_MODELS: tuple[Topic, ...] = ("taps", "a2a", "fusion", "overlap")
_SETTER = "set_eagle3_layers_to_capture"


@dataclass(frozen=True)
class WiringReport:
    """All statements about one launch. source, version: which SGLang; architecture: the target's class."""

    source: str
    version: str | None
    architecture: str
    statements: tuple[Statement, ...]

    def of(self, topic: Topic) -> Statement:
        """The statement on ``topic``."""
        return next(statement for statement in self.statements if statement.topic == topic)

    def record(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "source": self.source,
            "version": self.version,
            "architecture": self.architecture,
            "statements": [statement.record() for statement in self.statements],
        }

    def __repr__(self) -> str:
        head = f"{self.architecture} in sglang {self.version} ({self.source})"
        return "\n".join([head, *map(str, self.statements)])


def read_wiring(
    tree: SourceTree,
    architecture: str,
    settings: Mapping[str, Any],
    *,
    chip: Chip | None = None,
    draft_architecture: str = drafter.EAGLE3,
) -> WiringReport:
    """Read how the taps of ``architecture`` are wired.

    Args:
        settings: server arguments by SGLang's names (``tp_size``, ``nnodes``, ``moe_a2a_backend``, ...).
        chip: the box's GPUs, None where they are not known.
    """
    classes = model_classes(tree, architecture)
    found = [_setter(tree, classes, architecture)]
    if classes:
        found += taps.statements(tree, classes, settings)
        found.append(allreduce.statement(tree, classes, architecture, settings, chip))
        found.append(overlap_for(overlap.statement(tree, classes), settings))
    else:
        found += [unread(topic, f"no model file defines {architecture}") for topic in _OF_MODELS]
    found += [
        graphs_for(graphs.statement(tree), settings),
        joining.statement(tree),
        drafter.statement(tree, draft_architecture),
    ]
    return WiringReport(tree.name, tree.version, architecture, tuple(found))


def _setter(tree: SourceTree, classes: list[ClassAt], architecture: str) -> Statement:
    """Whether the target's own class (or one it inherits from) has a setter of EAGLE-3's layers."""
    if not classes:
        return unread("setter", f"no model file defines {architecture}")
    own = _ancestry(classes)
    for one in own:
        if (method := one.method(_SETTER)) is not None:
            return Statement("setter", True, f"{one.node.name} takes layer ids", (one.module.line(method),))
    said = f"{architecture} has no {_SETTER}: the engine stops with an AttributeError when it sets the ids"
    return Statement("setter", False, said, (classes[0].module.line(classes[0].node),))


def _ancestry(classes: list[ClassAt]) -> list[ClassAt]:
    """The first class and those it inherits from, without what it only holds."""
    by_name = {one.node.name: one for one in reversed(classes)}
    found, names = [], [classes[0].node.name]
    while names:
        one = by_name.get(names.pop(0))
        if one is not None and one not in found:
            found.append(one)
            names += [getattr(base, "id", "") for base in one.node.bases]
    return found
