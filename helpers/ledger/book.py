"""The ledger of an investigation: hypothesis, then evidence, then verdict, each a line that stays.

>>> ledger = open_ledger("case")                                              # doctest: +SKIP
>>> h = ledger.hypothesis(
...     "the ids feed other layers than training captured",
...     prediction="a served slot is another boundary than its trained one",
...     threshold="any slot code of severity error",
... )                                                                         # doctest: +SKIP
>>> e = ledger.evidence(diagnosis, on=h, supports=True, of=captured)          # doctest: +SKIP
>>> ledger.verdict(h, "confirmed", because=[e], reason="slot 0 is boundary 0, trained was 3")   # doctest: +SKIP

A cell may be run again: what says the same is the entry that is there already; what says something else under the same
title takes its place, and both stay in the file.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers import __version__
from helpers.ledger import refusals
from helpers.ledger.chain import Data
from helpers.ledger.records import About, Bearing, Evidence, Hypothesis, Note, Outcome, Verdict
from helpers.ledger.redaction import without_secrets
from helpers.ledger.results import Summary, summarise
from helpers.ledger.results.base import placed
from helpers.ledger.state import State
from helpers.ledger.view import View
from helpers.ledger.writing import FILE
from helpers.paths import investigations_dir
from helpers.screen import visible


def open_ledger(name: str, *, title: str | None = None) -> Ledger:
    """The ledger of an investigation; where there is none, its first entry makes it.

    Args:
        name: of its folder under `helpers.paths.investigations_dir()`.
        title: what it asks; the last that was given holds.

    Raises:
        UsageError: ``WB-LEDGER-NAME``, ``WB-LEDGER-WRITE``. WrongResult: ``WB-LEDGER-BROKEN``.
    """
    ledger = Ledger(folder_of(name))
    ledger._open(title)
    return ledger


def read_ledger(name: str) -> Ledger:
    """A ledger that is there already.

    Raises:
        UsageError: ``WB-LEDGER-MISSING``, with those that there are; ``WB-LEDGER-NAME``.
        WrongResult: ``WB-LEDGER-BROKEN``.
    """
    folder = folder_of(name)
    if not (folder / FILE).is_file():
        raise refusals.missing(folder, ledgers())
    ledger = Ledger(folder)
    ledger._chain.read()
    return ledger


def ledgers() -> list[str]:
    """The names of all investigations that have one."""
    root = investigations_dir()
    return sorted(path.parent.name for path in root.glob(f"*/{FILE}")) if root.is_dir() else []


def folder_of(name: str) -> Path:
    """The folder of an investigation.

    Raises:
        UsageError: ``WB-LEDGER-NAME``.
    """
    if not name or any(c in name for c in "/\\") or visible(name) != name or name.startswith((".", "-")):
        raise refusals.bad_name(name)
    return investigations_dir() / name


class Ledger(View):
    """An investigation's ledger; made by `open_ledger`. Several notebooks may write it at once."""

    def hypothesis(
        self,
        claim: str,
        *,
        prediction: str | None = None,
        threshold: str | None = None,
        key: str | None = None,
        reason: str = "",
    ) -> Hypothesis:
        """State what might be the case, before there is evidence; again with the same claim it is the same one.

        Args:
            prediction: what would be seen if it holds. threshold: at which figure it counts as shown.
            key: a short name of its own (`ledger.get("ids")`); the claim is its name else.
            reason: why prediction or threshold are other ones than before, which is kept as an amendment.

        Raises:
            UsageError: ``WB-LEDGER-PREDICTION`` where a new one comes without prediction or threshold.
        """
        clean = {"claim": claim, "prediction": prediction, "threshold": threshold}
        said = {name: without_secrets(value.strip()) for name, value in clean.items() if value is not None}
        name = without_secrets(key or claim).strip()

        def make(state: State) -> list[Data]:
            known = state.find(name) or state.find(said["claim"])
            if known is not None:
                return self._changes(state, known, said, reason)
            if not said.get("prediction") or not said.get("threshold"):
                raise refusals.no_prediction(claim)
            return [self._entry(state, "hypothesis", name, dict(said))]

        self._append(make)
        state = self._state
        found = state.find(name) or state.find(said["claim"])
        assert found is not None
        return found

    def amend(
        self,
        hypothesis: Hypothesis | str,
        *,
        reason: str,
        claim: str | None = None,
        prediction: str | None = None,
        threshold: str | None = None,
    ) -> Hypothesis:
        """Change a hypothesis. The change is an entry of its own, with the evidence that was there before it."""
        given = {"claim": claim, "prediction": prediction, "threshold": threshold}
        said = {name: without_secrets(value.strip()) for name, value in given.items() if value is not None}
        known = self.get(hypothesis)
        self._append(lambda state: self._changes(state, state.current[known.id], said, reason))
        return self.get(known.id)

    def evidence(
        self,
        result: Any,
        *,
        on: Hypothesis | str | Sequence[Hypothesis | str] = (),
        supports: bool | Bearing | None = None,
        title: str | None = None,
        of: Any = (),
        run: str | None = None,
        seed: int | None = None,
        n: int | None = None,
        unit: str | None = None,
        command: str | None = None,
        places: Mapping[str, object] | None = None,
        note: str = "",
    ) -> Evidence:
        """Keep a result: its figures, the files it rests on by their hashes, and where it came from.

        Args:
            result: a command's result, a capture, a diagnosis, a replay, a measurement, a preflight, a patch's state,
                lines of source, a plotly figure, a table, a Path, a dict of figures, text, or a list of such.
            on: the hypotheses that it bears on.
            supports: True, False (it contradicts), or None (neither).
            title: its name in this investigation. The same title on the same hypotheses, with other content, takes the
                older one's place (a cell that ran again); the older one stays in the file.
            of: what the result was made of (a capture, a run, a dump, other evidence of this ledger): run, profile,
                hashes and files come from there. Of evidence its id is kept, and its files stay its own.
            run, seed, n, unit, command: where the result does not say so itself.
            places: what the words BOX, DUMP, DRAFT, TARGET, PROMPTS, PROFILES and PROFILE of its command stand for,
                where neither it nor what it was made of knows.

        Raises:
            UsageError: ``WB-LEDGER-RESULT`` for what cannot be evidence, ``WB-LEDGER-FILE`` for a file that is not
                there, ``WB-LEDGER-UNKNOWN`` for a hypothesis that is none of this ledger.
        """
        made_of = of if isinstance(of, list | tuple) else (of,)
        summary = self._summary(result, made_of)
        bearing: Bearing = supports if isinstance(supports, str) else _BEARINGS[supports]
        given = [on] if isinstance(on, str | Hypothesis) else list(on)
        ids = tuple(dict.fromkeys(self.get(one).id for one in given))
        files = self._files(summary)
        name = without_secrets(title or summary.title).strip()
        known = {**summary.places, **{word: shlex.quote(str(place)) for word, place in (places or {}).items()}}
        line = command or summary.command
        line = placed(line, known) if line else None
        ids_of = tuple(dict.fromkeys(one.id for one in made_of if isinstance(one, Evidence))) or None
        extra = {"run": run, "seed": seed, "n": n, "unit": unit, "command": line, "made_of": ids_of}
        if seed is not None:
            summary = dataclasses.replace(summary, seed_of=None)
        data = {
            **_plain(summary),
            **{field: value for field, value in extra.items() if value is not None},
            "on": ids,
            "bearing": bearing,
            "title": name,
            "files": [file.model_dump() for file in files],
            "note": note,
            "versions": {"workbook": __version__, **summary.versions},
        }
        return self._one(Evidence, "evidence", f"{','.join(ids)}/{name}", data)

    def _summary(self, result: Any, of: Sequence[Any]) -> Summary:
        try:
            summary = summarise(result)
            for context in of:
                summary = summary.within(_told(context) if isinstance(context, Evidence) else summarise(context))
        except FileNotFoundError as error:
            raise refusals.no_file(error) from error
        return summary

    def verdict(
        self,
        hypothesis: Hypothesis | str,
        outcome: Outcome,
        *,
        because: Iterable[Evidence | str] | None = None,
        reason: str,
    ) -> Verdict:
        """Say what came of a hypothesis.

        Args:
            because: the evidence that decides, by default all that the hypothesis has. Of evidence that a later run
                took the place of, the later one is meant.
            reason: in words, with the figure.

        Raises:
            UsageError: ``WB-LEDGER-NO-EVIDENCE`` without evidence, or where none of it points that way;
                ``WB-LEDGER-STALE`` where a file that it rests on has changed; ``WB-LEDGER-UNKNOWN``.
        """
        known = self.get(hypothesis)
        given = None if because is None else [e if isinstance(e, str) else e.id for e in because]
        state = self.state
        unknown = [id for id in given or () if not isinstance(state.entries.get(id), Evidence)]
        if unknown:
            raise refusals.unknown(unknown[0], self.name, [e.id for e in state.evidence()])
        ids = [e.id for e in state.evidence(known.id)] if given is None else [state.now(id) for id in given]
        weighed = [e for e in state.evidence() if e.id in ids]
        refusals.check_verdict(known, outcome, weighed)
        if changed := [(e, f) for e in weighed for f in self.stale(e)]:
            raise refusals.stale(*changed[0])
        data = {"hypothesis": known.id, "outcome": outcome, "because": tuple(dict.fromkeys(ids)), "reason": reason}
        return self._one(Verdict, "verdict", known.id, data)

    def note(self, text: str, *, about: About = "fact") -> Note:
        """A line for the report.

        Args:
            about: ``fact`` (of the timeline), ``conclusion`` (stands first), ``trigger`` (what set the cause off),
                ``fix``, ``limit`` (what this investigation does not show), ``title``.
        """
        return self._one(Note, "note", f"{about}/{without_secrets(text).strip()}", {"about": about, "text": text})


FROM_THERE = ("run", "profile", "profile_hash", "patches", "seed", "seed_of", "n", "unit")
_BEARINGS: dict[bool | None, Bearing] = {True: "supports", False: "contradicts", None: "neutral"}


def _told(e: Evidence) -> Summary:
    """What evidence says of where it came from, for what is made of it."""
    said = {name: getattr(e, name) for name in FROM_THERE}
    return Summary(e.source, e.title, e.summary, **said)


def _plain(summary: Summary) -> Data:
    names = ("source", "summary", "values", *FROM_THERE, "config", "command")
    return {name: getattr(summary, name) for name in names}
