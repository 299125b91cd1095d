"""What a row of benchmarks/results.json is, and how two things are timed against each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One ratio. ``detail`` tells what was measured, with the medians and their spread."""

    name: str
    value: float
    unit: str
    detail: str


@dataclass(frozen=True)
class Times:
    """Seconds of ours and of the peer, run by turns."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """How many times as fast as the peer ours is (above 1: faster)."""
        return statistics.median(self.peer) / statistics.median(self.ours)

    @property
    def share(self) -> float:
        """Our time as a share of the peer's (below 1: faster)."""
        return statistics.median(self.ours) / statistics.median(self.peer)

    def __str__(self) -> str:
        return f"ours {_spread(self.ours)}, peer {_spread(self.peer)}, {len(self.ours)} times each, by turns"


def _spread(seconds: tuple[float, ...]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{1000 * middle:.1f} ms ({1000 * low:.1f} to {1000 * high:.1f})"


def by_turns(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    times: int = 7,
    warm_up: int = 1,
    before: Callable[[], object] = lambda: None,
) -> Times:
    """Run both ``times`` times, one after the other, so that what else the machine does hits both alike.

    ``before`` each run, outside the timing: to put things back as they were.
    """
    mine, theirs = [], []
    for turn in range(warm_up + times):
        for work, seconds in ((ours, mine), (peer, theirs)):
            before()
            started = time.perf_counter()
            work()
            if turn >= warm_up:
                seconds.append(time.perf_counter() - started)
    return Times(tuple(mine), tuple(theirs))
