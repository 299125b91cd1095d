"""The entries of a ledger, a line each: opened, hypothesis, amendment, evidence, verdict, note.

What an entry says is frozen; a later entry may replace an earlier one of the same key, and then both stay.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCHEMA = "workbook.ledger/1"

Bearing = Literal["supports", "contradicts", "neutral"]
Outcome = Literal["confirmed", "refuted", "inconclusive"]
About = Literal["fact", "conclusion", "trigger", "fix", "limit", "title"]


class Record(BaseModel):
    """Base of what is kept: frozen; a key of a later version does not make an old ledger unreadable."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class File(Record):
    """A file that evidence rests on. ``path``: relative to the investigation's folder (it may start with ``../``)."""

    path: str
    sha256: str
    bytes: int


class Entry(Record):
    """What every entry has.

    Attributes:
        line: its number in the file, from 1. id: such as ``E3``. at: ISO 8601, UTC. by: who wrote it.
        key: what it is about: a later entry of the same kind and key takes the earlier one's place.
        replaces: the id of that earlier one.
    """

    line: int
    id: str
    at: str
    by: str
    key: str
    replaces: str | None = None


class Opened(Entry):
    """The first line."""

    kind: Literal["opened"] = "opened"
    schema_: str = Field(default=SCHEMA, alias="schema")
    title: str
    versions: dict[str, str] = {}

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Hypothesis(Entry):
    """What might be the case, what would follow from it, and at which figure it counts as shown."""

    kind: Literal["hypothesis"] = "hypothesis"
    claim: str
    prediction: str
    threshold: str

    def __repr__(self) -> str:
        return f"{self.id}: {self.claim}"

    def _repr_html_(self) -> str:
        from helpers.ledger.showing import hypothesis_html

        return hypothesis_html(self)


class Amendment(Entry):
    """A hypothesis changed. ``after``: evidence that was there already; a reader should know."""

    kind: Literal["amendment"] = "amendment"
    hypothesis: str
    field: Literal["claim", "prediction", "threshold"]
    was: str
    now: str
    reason: str
    after: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{self.id}: {self.field} of {self.hypothesis} is now {self.now!r}"


class Evidence(Entry):
    """What was seen, and how it bears on hypotheses.

    Attributes:
        source: what kind of result it is: command, capture, diagnosis, replay, measurement, figure, table, ...
        values: its figures, ready for JSON. config: the configuration behind it (profile, launch), by name.
        profile, profile_hash: of the server. patches: those that were in. versions: of engine and workbook.
        n: how many observations (tokens, verify steps, requests); ``unit`` says of which.
        seed: of what was drawn at random; seed_of: for what, where it is no text's (``bootstrap``: the intervals).
        command: the same by the command line. made_of: ids of the evidence that it was made of.
    """

    kind: Literal["evidence"] = "evidence"
    on: tuple[str, ...]
    bearing: Bearing
    title: str
    source: str
    summary: str
    values: dict[str, Any] = {}
    files: tuple[File, ...] = ()
    run: str | None = None
    profile: str | None = None
    profile_hash: str | None = None
    patches: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    seed: int | None = None
    seed_of: str | None = None
    n: int | None = None
    unit: str | None = None
    config: dict[str, Any] = {}
    command: str | None = None
    made_of: tuple[str, ...] = ()
    note: str = ""

    @property
    def said(self) -> str:
        """Summary and note, as sentences of their own."""
        if not self.note:
            return self.summary
        return f"{self.summary}{'' if self.summary.endswith(('.', '!', '?')) else '.'} {self.note}"

    def __repr__(self) -> str:
        return f"{self.id}: {self.title} ({self.bearing} {', '.join(self.on) or 'nothing yet'})"

    def _repr_html_(self) -> str:
        from helpers.ledger.showing import evidence_html

        return evidence_html(self)


class Verdict(Entry):
    """What came of a hypothesis, because of which evidence."""

    kind: Literal["verdict"] = "verdict"
    hypothesis: str
    outcome: Outcome
    because: tuple[str, ...]
    reason: str

    def __repr__(self) -> str:
        return f"{self.id}: {self.hypothesis} {self.outcome}, because of {', '.join(self.because)}"

    def _repr_html_(self) -> str:
        from helpers.ledger.showing import verdict_html

        return verdict_html(self)


class Note(Entry):
    """A line for the report: a fact of the timeline, the conclusion, what triggered it, the fix, a limit."""

    kind: Literal["note"] = "note"
    about: About
    text: str

    def __repr__(self) -> str:
        return f"{self.id}: {self.text}"


AnyEntry = Annotated[
    Opened | Hypothesis | Amendment | Evidence | Verdict | Note,
    Field(discriminator="kind"),
]
ENTRY: TypeAdapter[AnyEntry] = TypeAdapter(AnyEntry)
LETTERS = {"opened": "O", "hypothesis": "H", "amendment": "A", "evidence": "E", "verdict": "V", "note": "N"}
