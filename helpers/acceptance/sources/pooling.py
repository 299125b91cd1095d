"""Means of intervals put together, with an interval of their own, from weighed and counted values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.acceptance.intervals import DRAWS, few
from helpers.acceptance.sources.result import Spread


@dataclass(frozen=True)
class Weighed:
    """Some lines of one kind: how many, what each counts for, its accept length, and N where it is known."""

    lines: int
    weight: float
    accept_length: float
    n: int | None


def pooled(rows: Sequence[Weighed]) -> float:
    """Mean accept length, each line counting for its weight."""
    total = sum(r.lines * r.weight for r in rows)
    return sum(r.lines * r.weight * r.accept_length for r in rows) / total


def pooled_rate(rows: Sequence[Weighed]) -> float | None:
    """Correct / proposed drafts over all lines; None where N is not known throughout."""
    top = bottom = 0.0
    for row in rows:
        if row.n is None:
            return None
        top += row.lines * row.weight * (row.accept_length - 1)
        bottom += row.lines * row.weight * (row.n - 1)
    return top / bottom


def interval(rows: Sequence[Weighed], *, seed: int = 0) -> tuple[float, float] | None:
    """95% interval of `pooled`, lines drawn with replacement; None for fewer than two, and where all say the same.

    Lines that follow each other are of the same requests, so they are no independent draws: the interval is too narrow,
    by how much a log does not tell (`told` says so).
    Equal lines are kept as counts, so a log of millions of lines costs no more than a short one.
    """
    counts = np.asarray([r.lines for r in rows], dtype=float)
    lines = int(counts.sum())
    if lines < 2 or len({r.accept_length for r in rows}) < 2:
        return None
    weights = np.asarray([r.weight for r in rows])
    values = np.asarray([r.accept_length for r in rows])
    draws = DRAWS if len(rows) <= 1000 else 1000
    drawn = np.random.default_rng(seed).multinomial(lines, counts / lines, size=draws) * weights
    low, high = np.percentile(drawn @ values / drawn.sum(1), [2.5, 97.5])
    return float(low), float(high)


def told(rows: Sequence[Weighed]) -> list[str]:
    """What has to be said beside `interval`, or instead of it."""
    lines = sum(r.lines for r in rows)
    if lines < 2:
        return []
    if len({r.accept_length for r in rows}) < 2:
        return [f"all {lines} log intervals have the same accept length: that tells no 95% interval"]
    shared = (
        "log intervals that follow each other share their requests, so a 95% interval over them is too narrow; answers "
        "(workbook bench) have one over prompts"
    )
    return [shared, *([said] if (said := few(lines, "log interval")) is not None else [])]


def spread(rows: Sequence[Weighed], unit: str) -> Spread | None:
    """Quartiles of the lines' accept lengths, each line counting once."""
    lines = sum(r.lines for r in rows)
    if lines < 2:
        return None
    ordered = sorted(rows, key=lambda r: r.accept_length)
    ends = np.cumsum([r.lines for r in ordered])

    def at(share: float) -> float:
        return ordered[int(np.searchsorted(ends, max(1.0, share * lines)))].accept_length

    return Spread(
        unit=unit, n=lines, least=at(0), quarter=at(0.25), median=at(0.5), three_quarters=at(0.75), most=at(1)
    )
