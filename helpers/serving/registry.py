"""The runs of a box, also those that another notebook, kernel or person started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.errors import UsageError
from helpers.nearest import did_you_mean
from helpers.owner import whoami
from helpers.serving.endings import ending
from helpers.serving.records import RunRecord
from helpers.serving.remote import ask
from helpers.serving.run import Run

if TYPE_CHECKING:
    from helpers.box import Box


def find_runs(box: Box, *, alive: bool = False, endings: bool = False, python: str = "python3") -> list[Run]:
    """All runs of this login on the box, the oldest first, each with its state now.

    Args:
        alive: only those whose server lives.
        endings: have `Run.ending` also tell why the newest of the dead ones died, by the last lines of their logs.
    """
    answer = ask(box, "list", {"endings": endings}, python=python)
    runs = []
    for found in answer["runs"]:
        record, state = RunRecord.model_validate(found["record"]), found["state"]
        ended = ending(record, state, found.get("last"), rebooted=found["rebooted"])
        runs.append(Run(box, record, state, answers=found["answers"], ending=ended))
    return [run for run in runs if run.state == "alive" or not alive]


def get_run(box: Box, name: str, *, python: str = "python3") -> Run:
    """A run by its id, its profile's name (then a living one before all others, your own, the newest), or its
    id's beginning.

    Raises:
        UsageError: WB-SERVE-NO-RUN, with the ids that there are; WB-SERVE-AMBIGUOUS where several ids begin like that:
            a run may be another person's, and is never picked by chance.
    """
    runs = find_runs(box, python=python)
    found = [run for run in runs if run.id == name]
    found = found or [run for run in runs if run.profile.name == name]
    if not found and name:
        found = [run for run in runs if run.id.startswith(name)]
        if len(found) > 1:
            raise UsageError(
                "WB-SERVE-AMBIGUOUS",
                f"{len(found)} runs on {box.name} begin with {name!r}",
                expected="a beginning that only one of them has",
                next=f"workbook runs {box.name}",
                lines=[f"{run.id} ({run.state}, {run.record.owner})" for run in found[-8:]],
            )
    if not found:
        known = [run.id for run in runs]
        raise UsageError(
            "WB-SERVE-NO-RUN",
            f"there is no run {name!r} on {box.name}",
            expected="one of " + ", ".join(known[-8:]) if known else "a run; there is none",
            next=did_you_mean(
                name,
                [*dict.fromkeys(run.profile.name for run in reversed(runs)), *reversed(known)],
                f"workbook runs {box.name}" if known else f"workbook serve {box.name} PROFILE",
            ),
        )
    return preferred(found)


def preferred(runs: Sequence[Run]) -> Run:
    """Of several runs the one that is meant: a living one before all that are over, then your own, then the newest."""
    me = whoami()
    return max(enumerate(runs), key=lambda one: (one[1].state == "alive", one[1].record.owner == me, one[0]))[1]
