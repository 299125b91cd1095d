"""A checkout's source as a profile is served from it: the patches that are in taken out, the profile's put in.

In memory, on copies: neither the box's files nor a folder of this machine change. So what is read does not hang on
which patch somebody happens to have in just now; how the checkout differs at this moment is told beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import UsageError
from helpers.source.journal import plain
from helpers.source.patch_state import Patch, evaluate, load_patch, overall, patch_names, sha256
from helpers.source.tree import SourceTree

Texts = dict[str, bytes | None]


@dataclass(frozen=True)
class Conflict:
    """A patch that cannot be put into the source. ``lines``: the hunk that does not fit."""

    patch: str
    problem: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class AsServed:
    """How a source was made what will be served, and how the checkout differs from that now.

    Attributes:
        patches: those of the profile that are in what was read.
        absent: those of them that are not in the checkout now: a start is refused until they are.
        extra: patches that are in the checkout now and that the profile does not name: read without them.
        edited: files of these patches that hold other edits too: read with those.
        conflicts: patches of the profile that do not go in; the source was read without them.
    """

    patches: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()

    @property
    def differs(self) -> bool:
        """The checkout is not now what was read."""
        return bool(self.absent or self.extra)


def served(
    texts: Mapping[str, bytes | None], wanted: Sequence[Patch], known: Sequence[Patch]
) -> tuple[Texts, AsServed]:
    """The files as they will be served, and what was done for it. Pure.

    Args:
        texts: path (relative to the folder that holds the package) -> content, None for a file that is missing.
        wanted: the profile's patches, in the order in which they go in.
        known: patches that may be in, the last one on top; a name that is also wanted may have another text.
    """
    now: Texts = dict(texts)
    out = _taken_out(now, [*known, *(patch for patch in wanted if patch.name not in {each.name for each in known})])
    stock = {plain(path): digest for patch in [*known, *wanted] for path, digest in patch.stock.items()}
    touched = {plain(file.path) for patch in wanted for file in patch.files}
    edited = [path for path in sorted(touched & set(stock)) if (data := now[path]) and sha256(data) != stock[path]]
    put, conflicts = [], []
    for patch in wanted:
        states = [evaluate(file, now.get(plain(file.path)), None) for file in patch.files]
        if overall([state.state for state in states]) == "clean":
            now |= {plain(state.path): state.result for state in states}
            put.append(patch.name)
        else:
            worst = next(state for state in states if state.state != "clean")
            problem = f"{plain(worst.path)}: {worst.problem or 'a part of it is in, and cannot be taken out'}"
            conflicts.append(Conflict(patch.name, problem, worst.shown))
    names = [patch.name for patch in wanted]
    return now, AsServed(
        patches=tuple(put),
        absent=tuple(name for name in put if name not in out),
        extra=tuple(name for name in out if name not in names),
        edited=tuple(edited),
        conflicts=tuple(conflicts),
    )


def _taken_out(now: Texts, patches: Sequence[Patch]) -> list[str]:
    """Take every patch out that is in, the upper ones first; one that lies under another comes out in a later round."""
    out: list[str] = []
    left = list(reversed(patches))
    while True:
        for patch in left:
            states = [evaluate(file, now.get(plain(file.path)), None) for file in patch.files]
            if overall([state.state for state in states]) == "applied":
                now |= {plain(state.path): state.result for state in states}
                out.append(patch.name)
                left.remove(patch)
                break
        else:
            return out


def patches_for(names: Sequence[str], version: str | None) -> tuple[list[Patch], list[Conflict]]:
    """The profile's patches by name, and those that there are not for this version."""
    found, conflicts = [], []
    for name in names:
        try:
            found.append(load_patch(name, version))
        except UsageError as error:
            conflicts.append(Conflict(name, f"{error.message}; expected {error.expected}"))
    return found, conflicts


@contextlib.contextmanager
def as_served(
    source: SourceTree, names: Sequence[str], journal: Sequence[Patch] = ()
) -> Iterator[tuple[SourceTree, AsServed]]:
    """``source`` as a profile with the patches ``names`` is served from it.

    Args:
        journal: what the box's journal says is in, the last on top.
    """
    wanted, unknown = patches_for(names, source.version)
    held = {patch.name for patch in journal}
    version = source.version
    known = [*(load_patch(name, version) for name in patch_names(version) if name not in held), *journal]
    paths = {plain(file.path) for patch in [*known, *wanted] for file in patch.files}
    texts = {path: _bytes(source.root / path) for path in paths}
    after, how = served(texts, wanted, known)
    how = AsServed(how.patches, how.absent, how.extra, how.edited, (*unknown, *how.conflicts))
    changed = {path: data for path, data in after.items() if data is not None and data != texts[path]}
    if not changed:
        yield source, how
        return
    with tempfile.TemporaryDirectory(prefix="workbook-served-") as folder:
        _copy(source.root, Path(folder))
        for path, data in changed.items():
            (Path(folder) / path).unlink()  # a link of the original: never written through
            (Path(folder) / path).write_bytes(data)
        yield SourceTree(Path(folder), source.name, source.version), how


def _copy(root: Path, folder: Path) -> None:
    """The package's Python files, linked where the file system lets them be: a copy of names, not of bytes."""
    for here, folders, files in os.walk(root / "sglang"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        there = folder / Path(here).relative_to(root)
        there.mkdir(parents=True, exist_ok=True)
        for name in files:
            if name.endswith(".py"):
                try:
                    os.link(Path(here) / name, there / name)
                except OSError:  # another file system
                    shutil.copyfile(Path(here) / name, there / name)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
