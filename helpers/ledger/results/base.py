"""`summarise`: a result in the words of the ledger, chosen by its class (or a class above it), without importing it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.errors import UsageError
from helpers.ledger.redaction import tree_without_secrets, without_secrets
from helpers.notebook_text import Worded

#: What the seed of an interval is of, lest it be read as the one that texts were sampled with.
BOOTSTRAP = "bootstrap"


@dataclass(frozen=True)
class Kept:
    """What has no file yet, and is to be saved beside the ledger."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Summary:
    """What a result says of itself.

    Attributes:
        source: its kind, a word. title: names it in all runs alike (it is the key of the evidence).
        summary: one sentence, with the figures that matter.
        values: figures and findings, ready for JSON. config: a configuration by its name, for the report to compare.
        files: that it rests on, each with its sha256 where that is known already. keep: to be saved.
        n: observations, of ``unit``. seed: of what was drawn, and for what (``bootstrap``: intervals, not texts).
        command: the same by the command line; places: what stands for a word of it (CAPTURE, DUMP, BOX).
    """

    source: str
    title: str
    summary: str
    values: dict[str, Any] = field(default_factory=dict)
    files: tuple[tuple[Path, str | None], ...] = ()
    keep: tuple[Kept, ...] = ()
    run: str | None = None
    profile: str | None = None
    profile_hash: str | None = None
    patches: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    seed_of: str | None = None
    n: int | None = None
    unit: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    places: dict[str, str] = field(default_factory=dict)

    def within(self, context: Summary) -> Summary:
        """The same, with what it does not know itself taken from what it was made of."""
        return dataclasses.replace(
            self,
            files=tuple(dict.fromkeys([*self.files, *context.files])),
            run=self.run or context.run,
            profile=self.profile or context.profile,
            profile_hash=self.profile_hash or context.profile_hash,
            patches=_together(self.patches, context.patches),
            versions={**context.versions, **self.versions},
            seed=self.seed if self.seed is not None else context.seed,
            seed_of=self.seed_of if self.seed is not None else context.seed_of,
            n=self.n if self.n is not None else context.n,
            unit=self.unit if self.n is not None else context.unit,
            config={**context.config, **self.config},
            command=self.command and placed(self.command, context.places),
            places={**context.places, **self.places},
        )


def _together(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Patches of both; a bare name gives way to the same with its hash."""
    every = dict.fromkeys([*one, *other])
    return tuple(name for name in every if not any(more.startswith(f"{name}@") for more in every))


def names_of(patches: Iterable[str]) -> list[str]:
    """Patches as settings that are compared: sorted, without their hashes.

    >>> names_of(["capture-embedding@0123456789ab"])
    ['capture-embedding']
    """
    return sorted({name.partition("@")[0] for name in patches})


def placed(command: str, places: Mapping[str, str]) -> str:
    """The command with what stands for a word of it put in.

    >>> placed("workbook diagnose --train DUMP", {"DUMP": "data/lab/dump"})
    'workbook diagnose --train data/lab/dump'
    """
    return " ".join(places.get(word, word) for word in command.split(" "))


Reader = Callable[[Any], Summary]
_READERS: dict[str, Reader] = {}
_ROOMS = ("box", "serving", "wiring", "acceptance", "tables")


def reader(*classes: str) -> Callable[[Reader], Reader]:
    """Registers a reader for classes by their full names, so that no library is imported for what is not used."""

    def register(function: Reader) -> Reader:
        _READERS.update(dict.fromkeys(classes, function))
        return function

    return register


def summarise(result: Any) -> Summary:
    """What a result says of itself.

    Raises:
        UsageError: ``WB-LEDGER-RESULT`` for what cannot be evidence.
    """
    for room in _ROOMS:
        importlib.import_module(f"helpers.ledger.results.{room}")
    if hasattr(result, "__evidence__"):
        own: Summary = result.__evidence__()
        return own
    for kind in type(result).__mro__:
        if found := _READERS.get(f"{kind.__module__}.{kind.__qualname__}"):
            return found(result)
    for method in ("to_json", "record", "model_dump"):  # results that are not known by name, as a record
        if callable(how := getattr(result, method, None)):
            values = how(mode="json") if method == "model_dump" else how()
            if isinstance(values, Mapping):
                said = {"summary": str(result)} if isinstance(result, Worded) else {}
                return of_values({**said, **values}, source=type(result).__name__.lower())
    raise UsageError(
        "WB-LEDGER-RESULT",
        f"a {type(result).__module__}.{type(result).__qualname__} cannot be evidence",
        expected="a result of the workbook, a figure, a table, a Path, a dict of figures, or text",
        next='give its figures: ledger.evidence({"cosine": 0.99, "n": 1200}, on=h, supports=True, title="...")',
    )


def of_values(values: Mapping[str, Any], *, source: str = "values") -> Summary:
    """Plain figures. ``n``, ``seed``, ``run`` and ``summary`` among them are also taken for what they are."""
    plain = tree_without_secrets(jsonable(dict(values)))
    said = plain.get("summary")
    n, seed, run = plain.get("n"), plain.get("seed"), plain.get("run")
    return Summary(
        source=source,
        title=source,
        summary=said if isinstance(said, str) else brief(plain),
        values=plain,
        n=n if isinstance(n, int) else None,
        seed=seed if isinstance(seed, int) else None,
        run=run if isinstance(run, str) else None,
    )


def brief(values: Mapping[str, Any], *, limit: int = 6) -> str:
    """The first figures as words.

    >>> brief({"rate": 0.51234567, "n": 12, "by_slot": [0.25, 0.51234567]})
    'rate 0.5123, n 12, by_slot 0.25 0.5123'
    """
    flat = [(key, said) for key, value in values.items() if (said := _brief(value, limit)) is not None]
    shown = [f"{key} {said}" for key, said in flat[:limit]]
    more = len(values) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])])


def _brief(value: Any, limit: int) -> str | None:
    """A figure, or a few of them, as a word; None where that would be no brief one."""
    if isinstance(value, list) and 0 < len(value) <= limit:
        parts = [_brief(item, 0) for item in value]
        return None if None in parts else " ".join(map(str, parts))
    if isinstance(value, str | int | float) or value is None:
        return str(round(value, 4) if isinstance(value, float) else value)
    return None


def jsonable(value: Any) -> Any:
    """A value as JSON has it: numbers of numpy and torch as plain ones, what is not finite as a word."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return jsonable({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if callable(dump := getattr(value, "model_dump", None)):
        return jsonable(dump(mode="json"))
    if callable(plain := getattr(value, "tolist", None)):
        return jsonable(plain())
    if isinstance(value, Iterable):
        return [jsonable(item) for item in value]
    return str(value)


def saved(name: str, value: Any) -> Kept:
    """A value to be saved as JSON, without secrets: the same value gives the same bytes."""
    clean = tree_without_secrets(jsonable(value))
    return Kept(name, (json.dumps(clean, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def saved_text(name: str, text: str) -> Kept:
    """A text to be saved, without secrets."""
    return Kept(name, without_secrets(text).encode())
