"""Checks a ledger from the bytes up: every line, every file that evidence rests on, the report's anchor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from helpers.errors import UsageError
from helpers.ledger.chain import FIRST, Damage, decode
from helpers.ledger.files import look
from helpers.ledger.records import ENTRY, Evidence
from helpers.ledger.state import NOTHING
from helpers.ledger.writing import FILE
from helpers.screen import as_typed


@dataclass(frozen=True)
class Problem:
    """One thing that is not what it was. ``line`` and ``entry``: where in the ledger; ``file``: which file."""

    what: str
    line: int | None = None
    entry: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        where = [f"line {self.line}" if self.line is not None else "", self.entry or "", self.file or ""]
        return " ".join([*(word for word in where if word), self.what])


@dataclass(frozen=True)
class Check:
    """What a check found.

    Attributes:
        entries: lines that are what was written. files: files that were read. head: the hash of the last good line.
        notes: what is no fault, and worth knowing.
    """

    name: str
    entries: int
    files: int
    head: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The object of ``workbook ledger verify --json``."""
        return {
            "ledger": self.name,
            "good": self.good,
            "entries": self.entries,
            "files": self.files,
            "head": self.head,
            "problems": [problem.__dict__ for problem in self.problems],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        state = (NOTHING if not self.entries else "good") if self.good else f"{len(self.problems)} problems"
        lines = [f"{self.name}: {state}; {self.entries} entries, {self.files} files, head {self.head[:16]}"]
        return "\n".join(
            [*lines, *(f"  {problem}" for problem in self.problems), *(f"  note: {n}" for n in self.notes)]
        )


def verify(folder: Path) -> Check:
    """Read everything again. Nothing is written, and nothing is taken from memory.

    A ledger that is not there has no entries; that is a problem only where a report was made of some.

    Raises:
        UsageError: ``WB-LEDGER-WRITE`` where the file cannot be read.
    """
    path = folder / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise UsageError(
            "WB-LEDGER-WRITE",
            f"{path} cannot be read: {error.strerror or error}",
            expected="a file that may be read",
            next=f"ls -l {as_typed(path)}",
        ) from error
    *lines, torn = content.split(b"\n")
    problems: list[Problem] = []
    evidence: list[Evidence] = []
    hashes = [FIRST]
    for number, line in enumerate(lines, start=1):
        try:
            data, head = decode(line, hashes[-1], number)
            entry = ENTRY.validate_python(data)
            if entry.line != number:
                problems.append(Problem(f"says that it is line {entry.line}", number, entry.id))
            if isinstance(entry, Evidence):
                evidence.append(entry)
        except Damage as damage:
            problems.append(Problem(damage.why, number, _id(line)))
            head = _stated(line) or hashes[-1]  # to go on with the lines after it
        except ValidationError as error:
            problems.append(Problem(f"is no entry: {error.errors()[0]['msg']}", number, _id(line)))
        hashes.append(head)
    if torn:
        problems.append(
            Problem(
                f"is torn: {len(torn)} bytes without an end. A crash while writing leaves this (it was never "
                "acknowledged); the next entry puts it aside",
                len(lines) + 1,
                _id(torn),
            )
        )
    broken = {problem.line for problem in problems}
    files, spoiled = _files(folder, evidence)
    return Check(
        name=folder.name,
        entries=len(lines) - len(broken - {len(lines) + 1}),
        files=files,
        head=hashes[-1],
        problems=(*problems, *spoiled, *_anchor(folder, hashes)),
        notes=tuple(f"{part.name}: bytes that a crash left, put aside" for part in sorted(folder.glob("torn-*.part"))),
    )


def _files(folder: Path, evidence: list[Evidence]) -> tuple[int, list[Problem]]:
    seen: dict[tuple[str, str], str] = {}
    problems = []
    for entry in evidence:
        for file in entry.files:
            known = seen.get((file.path, file.sha256)) or look(file, folder)
            seen[file.path, file.sha256] = known
            if known != "same":
                what = "is gone" if known == "missing" else "is not what it was: size or sha256 differ"
                problems.append(Problem(what, entry.line, entry.id, file.path))
    return len({path for path, _ in seen}), problems


def _anchor(folder: Path, hashes: list[str]) -> list[Problem]:
    """A report names the line that it was made at: so lines that were cut off at the end show as well."""
    try:
        anchor = json.loads((folder / "report.json").read_text())["ledger"]
        number, head = int(anchor["entries"]), str(anchor["head"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if number < len(hashes) and hashes[number] == head:
        return []
    met = f"there are {len(hashes) - 1}" if number >= len(hashes) else "that line is another one"
    return [Problem(f"was made of {number} entries up to {head[:16]}..., and {met}", None, None, "report.json")]


def _stated(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["sha256"])
    except (ValueError, KeyError, TypeError):
        return None


def _id(line: bytes) -> str | None:
    """The id that a damaged line still tells."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return None
