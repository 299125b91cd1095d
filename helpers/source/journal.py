"""What the box's journal says: which patches are in, and in which order they lie on one file. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """One application on one file: the patch's name, and the file's sha256 before and after."""

    name: str
    before: str
    after: str


def in_force(journal: Sequence[Entry], root: str) -> list[Entry]:
    """The applications in ``root`` that were not taken back, the oldest first."""
    active: dict[str, Entry] = {}
    older: dict[str, Entry | None] = {}
    for entry in journal:
        if entry.get("root") != root or not isinstance(entry.get("patch"), str):
            continue
        name = entry["patch"]
        before = active.pop(name, None)
        if entry.get("action") == "apply":
            active[name], older[name] = entry, before
        elif entry.get("action") == "undone" and (kept := older.pop(name, None)) is not None:
            active[name] = kept
    return list(active.values())


def application(journal: Sequence[Entry], name: str, root: str) -> Entry | None:
    """The last application of the patch ``name`` in ``root``, unless it was taken back."""
    return next((entry for entry in in_force(journal, root) if entry["patch"] == name), None)


def layers(journal: Sequence[Entry], root: str, path: str) -> list[Layer]:
    """What lies on the file ``path`` (relative to ``root``), the lowest first."""
    found = []
    for entry in in_force(journal, root):
        for file in entry["files"]:
            if plain(file["path"]) == plain(path):
                found.append(Layer(entry["patch"], file["before"], file["after"]))
    return found


def above(stack: Sequence[Layer], name: str, now: str | None) -> tuple[str, ...] | None:
    """The patches that lie on ``name``, where the file is what the journal says (``now``); None where it is not so.

    >>> stack = [Layer("a", "0", "1"), Layer("b", "1", "2")]
    >>> above(stack, "a", "2"), above(stack, "b", "2"), above(stack, "a", "9")
    (('b',), (), None)
    """
    place = next((at for at, layer in enumerate(stack) if layer.name == name), None)
    if place is None or stack[-1].after != now:
        return None
    upper = stack[place:]
    if any(low.after != high.before for low, high in itertools.pairwise(upper)):
        return None
    return tuple(layer.name for layer in upper[1:])


def plain(path: str) -> str:
    """A path of a diff as one of a checkout: in SGLang's repository the package lies below ``python/``."""
    return path.removeprefix("python/")
