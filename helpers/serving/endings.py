"""How a run ended, in words: who stopped it and when, or the cause of its death as its log shows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.serving.crash import recognise
from helpers.serving.records import RunRecord, State


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        code: the cause of a death, such as ``WB-SERVE-OUT-OF-MEMORY``; None for a run that was stopped, and for one
            whose log was not looked at or names no cause.
        summary: in words; ``by``, ``at``: of a stop.
    """

    summary: str
    code: str | None = None
    by: str | None = None
    at: str | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.summary}" if self.code else self.summary


def ending(record: RunRecord, state: State, last: Sequence[str] | None, *, rebooted: bool = False) -> Ending | None:
    """How a run ended; None while it lives, or may live on another machine.

    Args:
        last: the last lines of its log, None where they were not asked for.
        rebooted: the box was started again since.
    """
    if state in ("alive", "elsewhere"):
        return None
    if state == "stopped" and record.stopped:
        by, at = record.stopped.get("by"), record.stopped.get("at")
        return Ending(f"stopped by {by or 'somebody'}" + (f", {at}" if at else ""), by=by, at=at)
    crash = recognise(last) if last else None
    if crash is not None and crash.line:
        return Ending(crash.summary, crash.code)
    if rebooted:
        return Ending("the box was started again since")
    if last is None:
        return Ending("its log was not looked at: it is an older run")
    return Ending("the log names no cause: it was ended from outside" if last else "its log is empty or gone")
