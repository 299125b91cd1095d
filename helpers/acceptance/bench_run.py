"""A measurement that outlives its process: loads of one or several servers, every answer on disk as it comes.

A folder holds ``settings.json`` (what results depend on), ``requests.jsonl`` (a line a request; the last chunk's
``meta_info`` whole), ``profiles.toml`` and, at the end, ``summary.json``, schema ``workbook.bench/1``. The same call on
the same folder goes on where the last one was cut, and asks again only what has no answer.

>>> with connect("lab") as box:                                                          # doctest: +SKIP
...     bench([running(box, get_run(box, "right"))], prompts, LoadSettings(), Path("out"))
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.acceptance.arms import Arm, ProfileArm, RunArm, Seat, about, deciding, model_name
from helpers.acceptance.bench_result import SCHEMA, Bench, Key, Task, key_of, summed, tasks_of
from helpers.acceptance.journal import Journal, claim, write_whole
from helpers.acceptance.load import warmups
from helpers.acceptance.load_client import GONE, answers
from helpers.acceptance.load_failures import as_failure
from helpers.acceptance.load_records import Failure, to_row
from helpers.acceptance.load_settings import LoadSettings, check_kinds
from helpers.acceptance.prompts import Prompt
from helpers.errors import RemoteFailed, UsageError, WorkbookError
from helpers.progress import Progress
from helpers.serving.model import check_tokens
from helpers.serving.profile import Profile
from helpers.serving.profile_file import PROFILE_FILE, save_profiles
from helpers.serving.run import Run

if TYPE_CHECKING:
    from helpers.box import Box

ROWS, SETTINGS, SUMMARY = "requests.jsonl", "settings.json", "summary.json"


def running(box: Box, run: Run) -> RunArm:
    """A server that runs already, as one side of a bench."""
    return RunArm(run, about(box, run.profile))


def started(box: Box, profile: Profile, *, timeout: float | None = None) -> ProfileArm:
    """A profile that is started for every pass and stopped after it, as one side of a bench."""
    return ProfileArm(box, profile, about(box, profile), timeout)


def compare_profiles(
    box: Box,
    baseline: Profile,
    candidates: Sequence[Profile],
    prompts: Sequence[Prompt],
    settings: LoadSettings | None = None,
    *,
    out: Path,
    pairs: int = 2,
    timeout: float | None = None,
    progress: bool = True,
) -> Bench:
    """Candidates against a baseline, one server at a time, restarted for every pass: A B B A for two pairs.

    Raises:
        As `bench`.
    """
    arms = [started(box, profile, timeout=timeout) for profile in (baseline, *candidates)]
    return bench(arms, prompts, settings, out, passes=pairs, progress=progress)


def bench(
    arms: Sequence[Arm],
    prompts: Sequence[Prompt],
    settings: LoadSettings | None = None,
    out: Path = Path("bench"),
    *,
    passes: int = 1,
    progress: bool = True,
) -> Bench:
    """Ask every arm all prompts, `passes` times in turn, and sum up. The first arm is the baseline of the others.

    The order is A B, then B A, and so on: what drifts with time hits both alike. A failure ends it with what it has;
    the result then is partial, and says why. Ctrl-C ends it, too, with the answers so far on disk.

    Args:
        out: a new folder, or that of an earlier call with the same settings, which then goes on.

    Raises:
        UsageError: WB-PROMPTS-VOCABULARY, WB-LOAD-SETTINGS, WB-RESUME-...; nothing was sent.
        WrongResult: WB-COUNTERS-CONTRADICT; the answers are on disk, their figures are refused.
        BoxUnreachable: the box was lost between two passes; the same call goes on later.
    """
    settings = settings or LoadSettings()
    check(arms, prompts, settings)
    with Journal(out / ROWS) as journal:
        resumed = claim(out / SETTINGS, described(arms, prompts, settings, passes), schema=SCHEMA)
        save_profiles(out / PROFILE_FILE, [arm.profile for arm in arms])
        todo = list(tasks_of(arms, prompts, settings, passes))
        before = {key_of(row) for row in journal.rows if row["ok"]}
        bar = Progress(f"bench {' '.join(arm.name for arm in arms)}", enabled=progress)
        if resumed:
            bar.update(f"going on: {len(before)} of {len(todo)} requests were answered before")
        failure, ended = None, False
        try:
            failure = _take_all(arms, todo, before, settings, journal, bar)
            ended = True
        finally:
            if not ended:  # interrupted, or the box is out of reach: what there is, summed up
                with contextlib.suppress(WorkbookError):
                    _sum_up(arms, todo, journal, settings, out, len(before), None, passes)
        result = _sum_up(arms, todo, journal, settings, out, len(before), failure, passes)
        bar.done(f"{result.answered} of {result.asked} requests answered")
        return result


def _sum_up(
    arms: Sequence[Arm],
    todo: Sequence[Task],
    journal: Journal,
    settings: LoadSettings,
    out: Path,
    resumed: int,
    failure: Failure | None,
    passes: int,
) -> Bench:
    result = summed(arms, todo, journal.rows, settings, out, resumed=resumed, failure=failure, passes=passes)
    write_whole(out / SUMMARY, json.dumps(result.record(), indent=2, ensure_ascii=False) + "\n")
    return result


def check(arms: Sequence[Arm], prompts: Sequence[Prompt], settings: LoadSettings) -> None:
    """Refuse what cannot work before any server hears of it.

    Raises:
        UsageError: WB-LOAD-SETTINGS, WB-PROMPTS-VOCABULARY.
    """
    check_kinds(prompts, settings)
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names) or not names:
        raise UsageError(
            "WB-LOAD-SETTINGS",
            f"sides of a comparison need names of their own, not {', '.join(names) or 'none'}",
            expected="different profiles",
            next="give each profile once; --passes N asks one server several times",
        )
    for arm in arms:
        check_tokens(prompts, arm.about.vocab_size, f"the model of {arm.name}")


def described(arms: Sequence[Arm], prompts: Sequence[Prompt], settings: LoadSettings, passes: int) -> dict[str, Any]:
    """What the results depend on; the prompts by their hash."""
    content = json.dumps([[p.id, p.input_ids, p.text, p.messages] for p in prompts], ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "load": settings.deciding(),
        "prompts": {"n": len(prompts), "sha256": digest},
        "passes": passes,
        "arms": {arm.name: deciding(arm.profile) for arm in arms},
    }


def _take_all(
    arms: Sequence[Arm],
    todo: Sequence[Task],
    before: set[Key],
    settings: LoadSettings,
    journal: Journal,
    bar: Progress,
) -> Failure | None:
    """All passes in order; why answers are missing, if some are."""
    by_name = {arm.name: arm for arm in arms}
    turns = list(dict.fromkeys((task.arm, task.turn) for task in todo))
    first: Failure | None = None
    for name, turn in turns:
        left = [task for task in todo if (task.arm, task.turn) == (name, turn) and task.key not in before]
        if not left:
            continue
        where = f"{name}, pass {turn + 1} of {1 + max(t for _, t in turns)}"
        try:
            with by_name[name].open(progress=bar.enabled) as seat:
                failure, ended = take(seat, left, settings, journal, bar, where)
        except RemoteFailed as error:  # it did not start
            return first or as_failure(error)
        first = first or failure
        if ended:
            return first
    return first


def take(
    seat: Seat, tasks: Sequence[Task], settings: LoadSettings, journal: Journal, bar: Progress, where: str
) -> tuple[Failure | None, bool]:
    """One pass over one server; each answer becomes a row. The first failure, with what the box says of it, and
    whether it ended the pass.
    """
    model = model_name(seat, settings)
    prompts = [task.request.prompt for task in tasks]
    for answer in answers(seat.url, warmups(prompts, settings), settings, model=model, watch=seat.watch):
        if answer.failure is not None:
            return seat.explain(answer.failure), True
    failure: Failure | None = None
    failed = done = tokens = 0
    gone = False
    patched = {} if seat.patches is None else {"patches": list(seat.patches)}
    asked = [task.request for task in tasks]
    for answer in answers(seat.url, asked, settings, model=model, watch=seat.watch):
        journal.append({"arm": tasks[0].arm, "pass": tasks[0].turn, "run": seat.run, **patched, **to_row(answer)})
        done, tokens = done + answer.ok, tokens + answer.tokens
        if answer.failure is not None:
            failed, gone = failed + 1, gone or answer.failure.code in GONE
            failure = failure or answer.failure
        said = f"{done} of {len(tasks)} requests, {tokens} tokens"
        bar.update(where, f"{said}, {failed} failed" if failed else said)
    if failure is None:
        return None, False
    return seat.explain(failure), gone or failed > settings.max_failures
