"""A unified diff put on a text, and taken off again: pure functions on bytes, no file is touched here.

A hunk goes where its context stands word for word: at the line the diff states, or else at the only other place in the
file that has it. Two such places are ambiguous, none is a conflict; nothing is guessed and no line is skipped.

>>> patch = parse_patch('''--- a/x.py
... +++ b/x.py
... @@ -1,2 +1,3 @@
...  one
... +two
...  three
... ''', name="demo")
>>> place(b"zero\\none\\nthree\\n", patch[0]).text
b'zero\\none\\ntwo\\nthree\\n'
"""

from __future__ import annotations

import io
import posixpath
from dataclasses import dataclass, replace
from typing import Literal

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from helpers.errors import UsageError

Outcome = Literal["fits", "conflict", "ambiguous"]


@dataclass(frozen=True)
class Hunk:
    """One hunk: the lines it expects and the lines it leaves, each with its line end.

    Attributes:
        start: line number (from 1) at which ``before`` stands in the file that the diff was made from.
        after_start: the same for ``after`` in the resulting file.
        header: the ``@@`` line, for messages.
        shown: the hunk's own lines as the diff has them, for messages.
    """

    start: int
    after_start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    header: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class FilePatch:
    """The hunks for one file; ``path`` is relative to the folder that the patch is for."""

    path: str
    hunks: tuple[Hunk, ...]

    def reversed(self) -> FilePatch:
        """The same change taken back."""
        hunks = tuple(
            replace(h, start=h.after_start, after_start=h.start, before=h.after, after=h.before) for h in self.hunks
        )
        return FilePatch(self.path, hunks)


@dataclass(frozen=True)
class Placement:
    """Where the hunks of a file went.

    Attributes:
        text: the resulting file; None unless the outcome is ``fits``.
        lines: the line (from 1) at which each hunk was found, in the file as given.
        hunk: the hunk that did not fit.
        candidates: for ``ambiguous``, the lines at which it could go.
    """

    outcome: Outcome
    text: bytes | None = None
    lines: tuple[int, ...] = ()
    hunk: Hunk | None = None
    candidates: tuple[int, ...] = ()


def parse_patch(text: str, *, name: str) -> tuple[FilePatch, ...]:
    """The file patches of a unified diff.

    Raises:
        UsageError: WB-PATCH-UNREADABLE, for a text that is no unified diff or that adds, removes or renames a file.
    """
    try:
        patches = PatchSet(text)
    except UnidiffParseError as error:
        raise _unreadable(name, str(error)) from error
    files = []
    for file in patches:
        if file.is_added_file or file.is_removed_file or file.is_rename or file.is_binary_file or not len(file):
            raise _unreadable(name, f"{file.path} is added, removed, renamed, binary or without hunks")
        path = posixpath.normpath(file.path)
        if path.startswith(("/", "../")):
            raise _unreadable(name, f"{file.path} leads out of the folder that it is for")
        hunks = tuple(_hunk(hunk) for hunk in file)
        bare = [hunk.header for hunk in hunks if not hunk.before or not hunk.after]
        if bare:  # it would fit everywhere
            raise _unreadable(name, f"{file.path}: the hunk {bare[0]} has no line of context")
        files.append(FilePatch(path, hunks))
    if not files:
        raise _unreadable(name, "it holds no file")
    return tuple(files)


def place(text: bytes, patch: FilePatch) -> Placement:
    """Put a file's hunks into ``text`` (from top to bottom, never overlapping)."""
    lines = io.BytesIO(text).readlines()  # at \n only: a lone \r is text, as it is to diff
    result: list[bytes] = []
    done = 0  # lines of `lines` that are already in `result`
    shift = 0  # how far off its stated line the hunk before was found
    found: list[int] = []
    for hunk in patch.hunks:
        stated = hunk.start - 1 + shift
        places = _places(lines, hunk.before, first=done)
        if stated in places:
            at = stated
        elif len(places) == 1:
            at = places[0]
        else:
            outcome: Outcome = "ambiguous" if places else "conflict"
            return Placement(outcome, hunk=hunk, candidates=tuple(p + 1 for p in places))
        shift = at - (hunk.start - 1)
        found.append(at + 1)
        result += lines[done:at]
        result += hunk.after
        done = at + len(hunk.before)
    result += lines[done:]
    return Placement("fits", b"".join(result), tuple(found))


def _places(lines: list[bytes], block: tuple[bytes, ...], *, first: int) -> list[int]:
    size = len(block)
    return [at for at in range(first, len(lines) - size + 1) if tuple(lines[at : at + size]) == block]


def _hunk(hunk: object) -> Hunk:
    before: list[bytes] = []
    after: list[bytes] = []
    last: list[list[bytes]] = []
    for line in hunk:  # type: ignore[attr-defined]
        value = line.value.encode("utf-8", "surrogateescape")
        if line.line_type == "\\":  # "No newline at end of file": said of the line before
            for side in last:
                side[-1] = side[-1].rstrip(b"\r\n")
            continue
        last = [side for side, here in ((before, "+"), (after, "-")) if line.line_type != here]
        for side in last:
            side.append(value)
    shown = tuple(str(line).rstrip("\n") for line in hunk)  # type: ignore[attr-defined]
    start, length = hunk.source_start, hunk.source_length  # type: ignore[attr-defined]
    after_start, after_length = hunk.target_start, hunk.target_length  # type: ignore[attr-defined]
    return Hunk(
        start=start,
        after_start=after_start,
        before=tuple(before),
        after=tuple(after),
        header=f"@@ -{start},{length} +{after_start},{after_length} @@",
        shown=shown,
    )


def _unreadable(name: str, why: str) -> UsageError:
    return UsageError(
        "WB-PATCH-UNREADABLE",
        f"patch {name!r} cannot be read: {why}",
        expected="a unified diff that changes text files in place",
        next="make it with: diff -u OLD NEW",
    )
