"""What a bench found: the figures of its rows, each arm by itself and against the baseline."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.acceptance.arms import Arm
from helpers.acceptance.breaking_even import break_even_of, pass_of
from helpers.acceptance.intervals import few
from helpers.acceptance.load_client import Request
from helpers.acceptance.load_records import Failure, Load, counted, from_row
from helpers.acceptance.load_settings import LoadSettings
from helpers.acceptance.measurement import Measurement, measurement
from helpers.acceptance.past_end import past_end_said
from helpers.acceptance.prompts import Prompt
from helpers.acceptance.versus import Versus, text_differences, versus
from helpers.errors import RemoteFailed
from helpers.serving.profile import Profile
from helpers.serving.profile_file import PROFILE_FILE

SCHEMA = "workbook.bench/1"
Key = tuple[str, int, str, int]


@dataclass(frozen=True)
class Task:
    """One request of one pass over one arm, and the key that its row has."""

    arm: str
    turn: int
    request: Request

    @property
    def key(self) -> Key:
        return self.arm, self.turn, self.request.prompt.id, self.request.seed


@dataclass(frozen=True)
class Bench:
    """What a bench found.

    Attributes:
        folder: where all of it lies.
        arms: a row a server, the baseline first; those without any answer are left out.
        versus: each candidate against the baseline.
        failure: why answers are missing; None where none is, or where it was interrupted.
        asked, answered: requests. resumed: how many of them were answered by an earlier call.
        warnings: what a reader of the figures must know.
    """

    folder: Path
    settings: LoadSettings
    arms: tuple[Measurement, ...]
    versus: tuple[Versus, ...]
    failure: Failure | None
    asked: int
    answered: int
    resumed: int
    warnings: tuple[str, ...]
    loads: Mapping[str, Sequence[Load]]

    @property
    def partial(self) -> bool:
        """Whether answers are missing."""
        return self.answered < self.asked

    @property
    def command(self) -> str:
        """The same by the command line, with the servers started for it; BOX and PROMPTS stand for themselves."""
        every = {name: loads for name, loads in self.loads.items() if loads}
        passes = max((len(loads) for loads in every.values()), default=self.arms[0].passes)
        prompts = self.asked // (max(len(every), len(self.arms)) * passes * len(self.settings.seeds))
        words = ["workbook", "bench", "BOX", *(every or (arm.name for arm in self.arms)), "--pairs", str(passes)]
        words += ["--prompts", "PROMPTS", "--profiles", str(self.folder / PROFILE_FILE), *self.settings.options]
        return shlex.join([*words, "--limit", str(prompts)])

    def whole(self) -> Bench:
        """Itself, where no answer is missing; for a notebook, which must not go on with half of one.

        Raises:
            RemoteFailed: with the cause, as it was met; the answers so far stay on disk.
        """
        if not self.partial:
            return self
        failure = self.failure or Failure(code="WB-LOAD-FAILED", message="the load was cut off")
        raise RemoteFailed(
            failure.code,
            f"{self.answered} of {self.asked} requests were answered: {failure.message}",
            expected=failure.expected or "an answer to every request",
            next=failure.next or "the same call goes on where it stopped",
            lines=list(failure.lines),
        )

    def record(self) -> dict[str, Any]:
        """summary.json, and the object of ``workbook bench --json``."""
        return {
            "schema": SCHEMA,
            "folder": str(self.folder),
            "settings": self.settings.model_dump(mode="json"),
            "partial": self.partial,
            "asked": self.asked,
            "answered": self.answered,
            "resumed": self.resumed,
            "cause": None if self.failure is None else self.failure.model_dump(mode="json"),
            "arms": [arm.model_dump(mode="json") for arm in self.arms],
            "versus": [one.model_dump(mode="json") for one in self.versus],
            "warnings": list(self.warnings),
        }


def tasks_of(arms: Sequence[Arm], prompts: Sequence[Prompt], settings: LoadSettings, passes: int) -> Iterator[Task]:
    for turn in range(passes):
        for arm in arms if turn % 2 == 0 else reversed(arms):
            for seed in settings.seeds:
                yield from (Task(arm.name, turn, Request(prompt, seed)) for prompt in prompts)


def key_of(row: Mapping[str, Any]) -> Key:
    return row["arm"], row["pass"], row["prompt"], row["seed"]


def summed(
    arms: Sequence[Arm],
    todo: Sequence[Task],
    rows: Sequence[Mapping[str, Any]],
    settings: LoadSettings,
    out: Path,
    *,
    resumed: int = 0,
    failure: Failure | None = None,
    passes: int = 1,
) -> Bench:
    """The figures of the rows. A request's newest good row counts; failed ones only say what was met.

    Raises:
        WrongResult, UsageError: counters that contradict each other, or cannot be read.
    """
    good = {key_of(row): row for row in rows if row["ok"]}
    loads: dict[str, list[Load]] = {}
    runs: dict[str, list[list[str]]] = {}  # of each pass
    patches: dict[str, list[str]] = {}
    seen: set[str] = set()  # arms of which the patches were looked at when they were started
    for arm in arms:
        for turn in range(passes):
            mine = [task for task in todo if (task.arm, task.turn) == (arm.name, turn)]
            found = [good[task.key] for task in mine if task.key in good]
            runs.setdefault(arm.name, []).append([row["run"] for row in found if row["run"]])
            told = [row["patches"] for row in found if "patches" in row]
            patches.setdefault(arm.name, []).extend(name for names in told for name in names)
            seen |= {arm.name} if told else set()
            kept = tuple(counted(from_row(row)) for row in found)
            loads.setdefault(arm.name, []).append(
                Load(kept, settings.max_new_tokens, settings.concurrency, len(mine), failure, settings)
            )
    answered = {arm.name: [load for load in loads[arm.name] if load.answers] for arm in arms}
    greedy, base = settings.temperature == 0, arms[0]
    others = [arm for arm in arms[1:] if answered[arm.name] and answered[base.name]]
    against = tuple(
        versus(
            arm.name,
            loads[arm.name],
            base.name,
            loads[base.name],
            greedy=greedy,
            topk=(topk_of(arm.profile), topk_of(base.profile)),
        )
        for arm in others
    )
    texts = {one.candidate: one for one in against}
    measured = []
    for arm in arms:
        if answered[arm.name]:
            row = measurement(
                arm.profile,
                answered[arm.name],
                boundaries=arm.about.boundaries,
                run=", ".join(dict.fromkeys(run for one in runs[arm.name] for run in one)) or None,
                patches=list(dict.fromkeys(patches[arm.name])) if arm.name in seen else None,
                eos=arm.about.eos,
            )
            passed = zip(loads[arm.name], runs[arm.name], strict=True)
            speculates = arm.profile.speculation is not None
            by_pass = tuple(pass_of(load, ids, speculates=speculates) for load, ids in passed)
            asked = sum(one.asked or 0 for one in loads[arm.name])
            measured.append(row.model_copy(update={"asked": asked, "by_pass": by_pass}))
    beyond = [said for row in measured if (said := past_end_said(row.name, row.past_end, "--natural-end")) is not None]
    starts, by_name = {row.name: row.starts for row in measured}, {row.name: row for row in measured}
    return Bench(
        folder=out,
        settings=settings,
        arms=tuple(_with_texts(row, texts.get(row.name)) for row in measured),
        versus=tuple(over_starts_too(one, by_name[one.candidate], by_name[one.baseline]) for one in against),
        failure=failure,
        asked=len(todo),
        answered=len(good),
        resumed=resumed,
        warnings=(*_warnings(arms, answered, settings), *beyond, *_started_once(starts)),
        loads=loads,
    )


def topk_of(profile: Profile) -> int:
    """Branches a draft step; 1 without speculation."""
    return 1 if profile.speculation is None else profile.speculation.topk


def over_starts_too(one: Versus, mine: Measurement, base: Measurement) -> Versus:
    """A comparison with what only the starts of both servers tell: how many there were, and the break-even."""
    starts = min((n for n in (mine.starts, base.starts) if n is not None), default=None)
    pays = mine.survival is not None and base.survival is None
    return one.model_copy(
        update={"starts": starts, "break_even": break_even_of(mine.by_pass, base.by_pass) if pays else None}
    )


def _started_once(starts: Mapping[str, int | None]) -> Iterator[str]:
    once = [name for name, number in starts.items() if number == 1]
    if once:
        yield (
            f"{', '.join(once)}: one start: the interval is over prompts only; what a restart changes in tok/s is in "
            "none of it (--pairs N starts each profile N times)"
        )


def _with_texts(row: Measurement, against: Versus | None) -> Measurement:
    if against is None:
        return row
    first = against.first
    where = None if first is None else (first.prompt, first.character if first.token is None else first.token)
    return row.model_copy(update={"greedy_equal": against.greedy_equal, "first_difference": where})


def _warnings(arms: Sequence[Arm], answered: Mapping[str, Sequence[Load]], settings: LoadSettings) -> Iterator[str]:
    prompts = len({answer.id for loads in answered.values() for load in loads for answer in load.answers})
    if prompts and (said := few(prompts, "prompt")) is not None:
        yield said
    for arm in arms:
        loads = answered[arm.name]
        if arm.about.vocab_size is None:
            yield f"{arm.name}: the size of its vocabulary is not known, so prompts were not held against it"
        if arm.profile.speculation is not None and loads and not any(load.counters for load in loads):
            yield f"{arm.name}: the endpoint {settings.endpoint!r} tells no counters, so there is no acceptance"
        if settings.temperature == 0 and len(loads) > 1:
            compared, differing = text_differences(loads[1:], loads[:1])
            if differing:
                said = f"{len(differing)} of {compared} of its own greedy texts differ from pass to pass"
                yield f"{arm.name}: {said}; a difference from another arm says nothing of these"
    if settings.temperature == 0 and settings.concurrency > 1:
        yield "requests shared batches, whose arithmetic depends on who shares them: greedy texts may differ for that"
