"""Room on the file systems that hold given folders, by ``df``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, unreadable

FACT = "disk"
_COLUMNS = ("Filesystem", "Type", "1024-blocks", "Used", "Available", "Capacity", "Mounted on")
# The name of a file system, and where it is mounted, may hold blanks; what lies between does not.
_SIZES = r"(?P<size>\d+|-)\s+(?P<used>\d+|-)\s+(?P<available>-?\d+|-)\s+(?:\d+%|-)\s+(?P<mount>/.*?)\s*"
_TYPED = re.compile(r"(?P<system>\S.*?)\s+(?P<kind>\S+)\s+" + _SIZES)
_PLAIN = re.compile(r"(?P<system>\S.*?)\s+" + _SIZES)
_MISSING = re.compile(r"(?:\S*/)?df: (?:cannot access )?['\"‘`]?(.+?)['\"’]?: ")


class Disk(Fact):
    """The file system under one folder; sizes in MiB.

    Attributes:
        path: the folder that was asked for. kind: such as ``ext4`` or ``nfs4``, None where df does not tell.
        available: what this login may still write, which the owner's reserve makes less than size - used.
    """

    path: str
    filesystem: str
    kind: str | None = None
    mount: str
    size: int | None = None
    used: int | None = None
    available: int | None = None


class Disks(Fact):
    """One entry a folder. missing: the folders that are not there."""

    disks: tuple[Disk, ...] = ()
    missing: tuple[str, ...] = ()


def question(paths: Sequence[str]) -> Question:
    """The question for these folders (absolute paths)."""
    return Question(FACT, (("df", "-PkT", "--", *paths), ("df", "-Pk", *paths)))


def parse(answer: Answer, paths: Sequence[str]) -> Disks | Absent:
    """Read the table: a row for each folder, in their order, without those that are not there.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    named = {match[1] for line in answer.errors if (match := _MISSING.match(line))}
    missing = tuple(path for path in paths if path in named)
    left = [path for path in paths if path not in missing]
    if not answer.lines:
        if left:
            raise failed(FACT, answer, "a row for each folder")
        return Disks(missing=missing)
    if not answer.lines[0].startswith("Filesystem"):
        raise unreadable(FACT, answer, 1, "a header: " + " ".join(_COLUMNS))
    typed = answer.lines[0].split()[1:2] == ["Type"]
    rows = [_disk(answer, number, typed) for number in range(2, len(answer.lines) + 1)]
    if len(rows) != len(left):
        raise unreadable(FACT, answer, len(answer.lines) + 1, f"{len(left)} rows, one for each of " + ", ".join(left))
    return Disks(
        disks=tuple(row.model_copy(update={"path": path}) for row, path in zip(rows, left, strict=True)),
        missing=missing,
    )


def _disk(answer: Answer, number: int, typed: bool) -> Disk:
    match = (_TYPED if typed else _PLAIN).fullmatch(answer.lines[number - 1])
    if match is None:
        raise unreadable(FACT, answer, number, " ".join(_COLUMNS if typed else (_COLUMNS[0], *_COLUMNS[2:])))

    def mib(name: str) -> int | None:
        return None if match[name] == "-" else int(match[name]) // 1024

    return Disk(
        path="",
        filesystem=match["system"],
        kind=match["kind"] if typed else None,
        mount=match["mount"],
        size=mib("size"),
        used=mib("used"),
        available=mib("available"),
    )
