"""What a ledger says now, folded from its lines: hypotheses as amended, evidence and verdicts that hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from helpers.ledger.records import Amendment, AnyEntry, Evidence, Hypothesis, Note, Opened, Verdict

Standing = Literal["open", "confirmed", "refuted", "inconclusive"]


#: What stands in the place of figures while there are none.
NOTHING = "nothing is recorded yet: run the notebooks 10 to 60, or `workbook investigate`"


@dataclass
class State:
    """The fold of a ledger's entries, in their order; `add` the next one.

    Attributes:
        entries: all, by id. latest: (kind, key) -> the id that holds.
        current: hypotheses by id, amendments applied.
    """

    entries: dict[str, AnyEntry] = field(default_factory=dict)
    latest: dict[tuple[str, str], str] = field(default_factory=dict)
    current: dict[str, Hypothesis] = field(default_factory=dict)

    def add(self, entry: AnyEntry) -> None:
        """Take the next line in."""
        self.entries[entry.id] = entry
        if isinstance(entry, Amendment):
            changed = self.current[entry.hypothesis].model_copy(update={entry.field: entry.now})
            self.current[entry.hypothesis] = changed
            return
        if isinstance(entry, Hypothesis):
            self.current[entry.id] = entry
        self.latest[entry.kind, entry.key] = entry.id

    def copy(self) -> State:
        """Another one that says the same."""
        return State(dict(self.entries), dict(self.latest), dict(self.current))

    def find(self, name: str) -> Hypothesis | None:
        """A hypothesis by its id, its key or its claim."""
        if name in self.current:
            return self.current[name]
        return next((h for h in self.current.values() if name in (h.key, h.claim)), None)

    def same(self, kind: str, key: str) -> AnyEntry | None:
        """The entry that holds under a key."""
        found = self.latest.get((kind, key))
        return None if found is None else self.entries[found]

    @property
    def title(self) -> str:
        """The investigation's title: the last that was given."""
        told = [entry.text for entry in self.notes("title")]
        opened = [entry.title for entry in self.entries.values() if isinstance(entry, Opened)]
        return (told or opened or ["investigation"])[-1]

    @property
    def empty(self) -> bool:
        """Whether nothing was suspected, seen or written down yet."""
        return not any(entry.kind != "opened" for entry in self.entries.values())

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """All, as they read now."""
        return list(self.current.values())

    def holds(self, entry: AnyEntry) -> bool:
        """Whether no later entry took its place."""
        return self.latest.get((entry.kind, entry.key)) == entry.id

    def now(self, id: str) -> str:
        """The id that holds today of the evidence that had this one."""
        entry = self.entries[id]
        return self.latest[entry.kind, entry.key]

    def evidence(self, on: str | None = None, *, replaced: bool = False) -> list[Evidence]:
        """Evidence that holds, of one hypothesis or all; with ``replaced`` also the older of the same title."""
        return [
            entry
            for entry in self.entries.values()
            if isinstance(entry, Evidence) and (on is None or on in entry.on) and (replaced or self.holds(entry))
        ]

    def verdict(self, hypothesis: str) -> Verdict | None:
        """The verdict that holds."""
        found = self.same("verdict", hypothesis)
        return found if isinstance(found, Verdict) else None

    def standing(self, hypothesis: str) -> Standing:
        """What came of a hypothesis so far."""
        found = self.verdict(hypothesis)
        return "open" if found is None else found.outcome

    def amendments(self, hypothesis: str) -> list[Amendment]:
        """What was changed of a hypothesis, in order."""
        entries = self.entries.values()
        return [entry for entry in entries if isinstance(entry, Amendment) and entry.hypothesis == hypothesis]

    def notes(self, about: str) -> list[Note]:
        """Notes of one kind, in order; one without a word says nothing."""
        told = [entry for entry in self.entries.values() if isinstance(entry, Note) and entry.about == about]
        return [note for note in told if note.text.strip()]

    def doubts(self, hypothesis: str) -> list[str]:
        """Why a verdict may have to be looked at again, in words."""
        found = self.verdict(hypothesis)
        if found is None:
            return []
        moved = [f"{id} was replaced by {self.now(id)}" for id in found.because if self.now(id) != id]
        weighty = [e for e in self.evidence(hypothesis) if e.bearing != "neutral" and e.replaces not in found.because]
        later = [e.id for e in weighty if e.line > found.line]
        words = [f"evidence that came later: {', '.join(later)}"] if later else []
        late = [a for a in self.amendments(hypothesis) if a.line > found.line]
        return [*moved, *words, *([f"the {late[-1].field} was changed afterwards"] if late else [])]
