"""Whether a patch is in a file: decided from the file's text and from what the journal says was done. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from helpers.errors import UsageError
from helpers.nearest import did_you_mean
from helpers.paths import REMOTE
from helpers.screen import as_typed
from helpers.source.unified import FilePatch, Placement, parse_patch, place
from helpers.source.versions import nearest_release

State = Literal["clean", "applied", "conflict", "ambiguous", "drifted"]
PATCHES = REMOTE / "patches"
_STOCK = re.compile(r"^sha256 (\S+)\n  before ([0-9a-f]{64})\n  after  ([0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """A patch of this repository, or the text of one that the journal kept.

    Attributes:
        files: what it changes; ``stock``: path -> sha256 of the unchanged file in the engine's own wheel.
    """

    name: str
    text: str
    files: tuple[FilePatch, ...]
    stock: Mapping[str, str]

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogateescape"))

    @classmethod
    def of(cls, name: str, text: str) -> Patch:
        """Parse a patch; see `parse_patch` for what it raises."""
        stock = {path: before for path, before, _ in _STOCK.findall(text)}
        return cls(name, text, parse_patch(text, name=name), stock)


@dataclass(frozen=True)
class FileState:
    """The state of one file under a patch.

    Attributes:
        now: sha256 of the file. before, after: sha256 without and with the patch, None where it has no such form.
        result: the file's text with the patch (state ``clean``) or without it (``applied``, ``drifted`` where its
            lines are still in place), else None.
        problem: what is in the way, with the hunk's lines below it; empty where nothing is.
        above: patches that went in on the same file after this one, and have to come out first.
    """

    path: str
    state: State
    now: str | None
    before: str | None = None
    after: str | None = None
    lines: tuple[int, ...] = ()
    result: bytes | None = None
    problem: str = ""
    shown: tuple[str, ...] = ()
    above: tuple[str, ...] = ()


def load_patch(name: str, version: str | None) -> Patch:
    """The patch ``name`` for SGLang ``version``, or a file of one's own, by its path.

    Raises:
        UsageError: WB-PATCH-UNKNOWN, with the names that there are for that version; WB-PATCH-UNREADABLE.
    """
    if is_path(name):
        return _own(name, version)
    path = _folder(version) / f"{name}.patch"
    known = patch_names(version)
    if name not in known:
        versions = sorted(folder.name for folder in PATCHES.glob("sglang-*"))
        raise UsageError(
            "WB-PATCH-UNKNOWN",
            f"there is no patch {name!r} for sglang {version}",
            expected="one of " + ", ".join(known) if known else "an engine that has patches: " + ", ".join(versions),
            next=did_you_mean(name, known, "workbook patch BOX plan ./my.patch takes a file of your own"),
        )
    return Patch.of(name, path.read_bytes().decode("utf-8", "surrogateescape"))


def is_path(name: str) -> bool:
    """Whether a patch is named as a file of one's own."""
    return "/" in name or name.endswith((".patch", ".diff"))


def _own(given: str, version: str | None) -> Patch:
    path = Path(given)
    try:
        path = path.expanduser()
        # A pipe or a device would never end.
        text = path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else None
        problem = "there is no such file" if text is None else ""
    except (OSError, ValueError, RuntimeError) as error:
        text, problem = None, getattr(error, "strerror", None) or str(error)
    if text is None:
        raise UsageError(
            "WB-PATCH-UNKNOWN",
            f"the patch {given!r} cannot be read: {problem}",
            expected="a unified diff on this machine, or one of " + ", ".join(patch_names(version)),
            next=did_you_mean(path.name, _beside(path), f"ls -l {as_typed(path.parent)}"),
        )
    name = path.name.removesuffix(".patch").removesuffix(".diff")
    if not name or name in patch_names(version):
        raise UsageError(
            "WB-PATCH-UNKNOWN",
            f"a file of your own cannot be called {name!r}: there is a patch of that name here",
            expected="another file name: the journal on the box keeps patches apart by it",
            next=f"mv {as_typed(path)} {as_typed(path.with_name('my-' + path.name))}",
        )
    return Patch.of(name, text)


def _beside(path: Path) -> list[str]:
    """What else lies in the folder of a file that is not there; nothing where that cannot be looked at."""
    try:
        return sorted(each.name for each in path.parent.iterdir())
    except (OSError, ValueError):
        return []


def evaluate(patch: FilePatch, text: bytes | None, applied: Mapping[str, Any] | None) -> FileState:
    """The state of one file.

    Args:
        text: the file, or None where it is missing.
        applied: ``{"before", "after"}`` of the last application that the journal knows and that was not taken back.
    """
    if text is None:
        return FileState(patch.path, "conflict", None, problem="the file is missing")
    now = sha256(text)
    forward, backward = place(text, patch), place(text, patch.reversed())
    if applied and now == applied["after"]:
        return _applied(patch, now, backward, before=applied["before"])
    if applied and now != applied["before"] and forward.outcome != "fits":
        problem = "the file was changed after the patch went in"
        if backward.outcome != "fits":
            problem += ", and the patch's lines are no longer as they were"
        before = applied["before"] if backward.text is None else sha256(backward.text)
        return FileState(patch.path, "drifted", now, before, applied["after"], backward.lines, backward.text, problem)
    if forward.outcome == "fits" and backward.outcome == "fits":
        return FileState(patch.path, "ambiguous", now, problem="it could go in, and could be taken out, both")
    if forward.outcome == "fits" and forward.text is not None:
        return FileState(patch.path, "clean", now, now, sha256(forward.text), forward.lines, forward.text)
    if backward.outcome == "fits":
        return _applied(patch, now, backward, before=None)
    return _refused(patch, now, forward)


def overall(states: Sequence[State]) -> State:
    """The state of a patch with several files; in half of them is a conflict."""
    for state in ("conflict", "ambiguous", "drifted"):
        if state in states:
            return state
    return states[0] if len(set(states)) == 1 else "conflict"


def sha256(data: bytes) -> str:
    """The digest as hex digits."""
    return hashlib.sha256(data).hexdigest()


def _applied(patch: FilePatch, now: str, backward: Placement, *, before: str | None) -> FileState:
    without = sha256(backward.text) if backward.text is not None else before
    return FileState(patch.path, "applied", now, without, now, backward.lines, backward.text)


def _refused(patch: FilePatch, now: str, forward: Placement) -> FileState:
    hunk = forward.hunk
    assert hunk is not None
    if forward.outcome == "ambiguous":
        where = ", ".join(str(line) for line in forward.candidates)
        problem = f"the hunk {hunk.header} fits at lines {where}, and not at its own line {hunk.start}"
        return FileState(patch.path, "ambiguous", now, problem=problem, shown=hunk.shown)
    problem = f"the hunk {hunk.header} fits nowhere: the file lacks these lines"
    return FileState(patch.path, "conflict", now, problem=problem, shown=hunk.shown)


def patch_names(version: str | None) -> list[str]:
    """The patches that there are for SGLang ``version``; for one that is no release, those of the newest release that
    is not later: they go in only where their exact lines stand."""
    return sorted(file.stem for file in _folder(version).glob("*.patch"))


def _folder(version: str | None) -> Path:
    released = [folder.name.removeprefix("sglang-") for folder in PATCHES.glob("sglang-*")]
    return PATCHES / f"sglang-{nearest_release(version, released)}"
