"""What a sweep knows of itself after a kill: ``sweep.jsonl``, a line an event, on the disk before the next step.

========  ============================================================================================================
start     a server is about to be started; its run's id, so that it is found again even if nothing else was written
stopped   that run is gone
patch     a patch is about to be put into the box's checkout; unpatch: it is out again
point     a point is finished: done, partial or failed, with its row
========  ============================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.journal import Journal
from helpers.acceptance.load_records import Failure
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.versus import Versus

STATE = "sweep.jsonl"
Status = Literal["done", "partial", "failed"]


class Row(BaseModel):
    """A finished point.

    Attributes:
        axes: as `helpers.acceptance.points.Point` has them.
        measurement: None where the point failed before it gave anything.
        versus: against the baseline of the same batch size, where the grid has one.
        cause: why it is partial or failed. preflight: codes of the warnings that were found before the start.
        seconds: from the start of its load to the end, of the call that finished it.
    """

    model_config = ConfigDict(frozen=True)

    point: str
    status: Status
    baseline: bool = False
    axes: Mapping[str, Any]
    measurement: Measurement | None = None
    versus: Versus | None = None
    cause: Failure | None = None
    preflight: tuple[str, ...] = ()
    seconds: float = 0.0


class State:
    """The journal of a sweep, and what follows from it. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / STATE)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    def write(self, event: str, **content: Any) -> None:
        """Append one event; it is on the disk when this returns."""
        self.journal.append({"event": event, "at": datetime.now(UTC).isoformat(timespec="seconds"), **content})

    @property
    def rows(self) -> dict[str, Row]:
        """The finished points, the newest row of each."""
        return {event["row"]["point"]: Row.model_validate(event["row"]) for event in self._events("point")}

    @property
    def standing(self) -> dict[str, str]:
        """Runs that were begun and not seen gone: run -> server."""
        gone = {event["run"] for event in self._events("stopped")}
        return {event["run"]: event["server"] for event in self._events("start") if event["run"] not in gone}

    @property
    def patches(self) -> list[tuple[str, str]]:
        """(patch, server whose profile it was for) of patches that this sweep put in and has not taken out."""
        mine: dict[str, str] = {}
        for event in self.journal.rows:
            if event["event"] == "patch":
                mine[event["name"]] = event["server"]
            if event["event"] == "unpatch":
                mine.pop(event["name"], None)
        return list(mine.items())

    def starts(self) -> Sequence[str]:
        """The servers of all starts, in order."""
        return [event["server"] for event in self._events("start")]

    def _events(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.journal.rows if row["event"] == kind]
