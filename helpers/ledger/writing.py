"""How a ledger is written and read: lines under a lock, folded into what the ledger says now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from helpers import __version__
from helpers.ledger import refusals
from helpers.ledger.chain import Chain, Data
from helpers.ledger.files import describe, keep
from helpers.ledger.records import ENTRY, LETTERS, SCHEMA, AnyEntry, Entry, File, Hypothesis
from helpers.ledger.redaction import tree_without_secrets
from helpers.ledger.results import Summary
from helpers.ledger.results.base import jsonable
from helpers.ledger.state import State
from helpers.owner import whoami

FILE = "ledger.jsonl"
Kind = TypeVar("Kind", bound=Entry)
_OWN = {"line", "id", "at", "by", "replaces"}  # in which two entries differ that say the same


class Book:
    """The file of one investigation and what it says. Safe with threads, notebooks and processes.

    Attributes:
        folder: the investigation's; name: the folder's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self._chain = Chain(folder / FILE)
        self._asked: str | None = None  # the title of a ledger that nothing was written to yet
        self._state, self._taken = State(), 0

    def batch(self) -> AbstractContextManager[None]:
        """Many entries that reach the disk together: acknowledged by the end of the block, not one by one."""
        return self._chain.batch()

    @property
    def state(self) -> State:
        """What it says now; what others wrote is taken in."""
        self._take(self._chain.read())
        return self._state

    @property
    def head(self) -> str:
        """The hash of the last line: it stands for the whole file."""
        self._chain.read()
        return self._chain.head

    def get(self, hypothesis: Hypothesis | str) -> Hypothesis:
        """A hypothesis by its id, its key or its claim, as it reads now.

        Raises:
            UsageError: ``WB-LEDGER-UNKNOWN``.
        """
        wanted = hypothesis if isinstance(hypothesis, str) else hypothesis.id
        state = self.state
        if (found := state.find(wanted)) is None:
            raise refusals.unknown(wanted, self.name, [f"{h.id} ({h.key})" for h in state.hypotheses])
        return found

    @property
    def title(self) -> str:
        """What the investigation asks."""
        state = self.state
        return state.title if state.entries else self._asked or self.name

    def _open(self, title: str | None) -> None:
        """Take up what is there. A ledger that is not there yet is made by its first entry, not by a look at it."""
        self._asked = title

        def make(state: State) -> list[Data]:
            if title is None or title == state.title:
                return []
            said = {"about": "title", "text": title}
            return [self._entry(state, "note", f"title/{len(state.entries)}", said)]

        if self.state.entries:
            self._append(make)

    def _first(self) -> Data:
        import platform

        versions = {"workbook": __version__, "python": platform.python_version()}
        data = {"schema": SCHEMA, "title": self._asked or self.name, "versions": versions}
        return self._entry(State(), "opened", "", data)

    def _changes(self, state: State, known: Hypothesis, said: dict[str, str], reason: str) -> list[Data]:
        """The amendments that make a hypothesis say this; none where it does."""
        made: list[Data] = []
        for field, text in said.items():
            if getattr(known, field) == text:
                continue
            data = {
                "hypothesis": known.id,
                "field": field,
                "was": getattr(known, field),
                "now": text,
                "reason": reason,
                "after": [e.id for e in state.evidence(known.id)],
            }
            made.append(self._entry(state, "amendment", f"{known.id}/{field}", data, ahead=len(made)))
        return made

    def _one(self, kind: type[Kind], word: str, key: str, data: Data) -> Kind:
        """The entry that says this under a key: the one that is there, or a new one in its place."""
        found: list[AnyEntry] = []

        def make(state: State) -> list[Data]:
            before = state.same(word, key)
            new = self._entry(state, word, key, {**data, "replaces": before.id if before else None})
            entry = ENTRY.validate_python(new)
            if before is not None and before.model_dump(exclude=_OWN) == entry.model_dump(exclude=_OWN):
                found.append(before)
                return []
            found.append(entry)
            return [new]

        self._append(make)
        entry = found[-1]
        assert isinstance(entry, kind)
        return entry

    def _entry(self, state: State, kind: str, key: str, data: Data, *, ahead: int = 0) -> Data:
        count = sum(entry.kind == kind for entry in state.entries.values())
        clean = tree_without_secrets(jsonable({name: value for name, value in data.items() if value is not None}))
        own = {
            "line": len(state.entries) + 1 + ahead,
            "id": f"{LETTERS[kind]}{count + 1 + ahead}",
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": whoami(),
            "key": key,
            "kind": kind,
        }
        return {**own, **clean}

    def _append(self, make: Callable[[State], list[Data]]) -> None:
        def under_lock(entries: list[Data]) -> list[Data]:
            self._take(entries)
            if entries:
                return make(self._state)
            state, first = State(), self._first()
            state.add(ENTRY.validate_python(first))
            added = make(state)
            return [first, *added] if added else []

        self._chain.append(under_lock)
        self._take(self._chain.entries)

    def _take(self, entries: list[Data]) -> None:
        with self._chain.mutex:
            if len(entries) == self._taken:
                return
            # A new fold, and not the old one changed: another thread may be reading that.
            state = State() if len(entries) < self._taken else self._state.copy()
            for data in entries[len(state.entries) :]:
                state.add(ENTRY.validate_python(data))
            self._state, self._taken = state, len(entries)

    def _files(self, summary: Summary) -> list[File]:
        try:
            found = [describe(path, self.folder, sha256) for path, sha256 in summary.files]
            kept = [keep(self.folder, each.name, each.data) for each in summary.keep]
            return [*found, *(describe(path, self.folder) for path in kept)]
        except FileNotFoundError as error:
            raise refusals.no_file(error) from error
        except OSError as error:
            raise refusals.unwritten(self.folder, error) from error
