"""What reading counters gives, whatever they were read from: one meaning, its n, and what the source had meant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A record that is never changed."""

    model_config = ConfigDict(frozen=True)


class Size(Record):
    """How much a figure rests on.

    Attributes:
        verify_steps: None where the source gives means only.
        lines: what was read: log lines (one an interval), saved responses, samples of a page.
    """

    verify_steps: int | None
    lines: int


class Spread(Record):
    """How far the accept lengths of single requests (or of log intervals) lie apart."""

    unit: str
    n: int
    least: float
    quarter: float
    median: float
    three_quarters: float
    most: float


class Part(Record):
    """The figures of one server among several in the same file."""

    server: str
    accept_length: float | None
    accept_rate: float | None
    survival: list[float] | None
    n: Size
    num_draft_tokens: int | None


class Counters(Record):
    """Acceptance as it was read.

    Attributes:
        accept_length: 1 + correct drafts / verify steps.
        accept_rate: correct / proposed drafts; None where the source does not settle it.
        survival: ``survival[i]`` is S(i + 1); None where the source has means only.
        source: such as ``sglang-log``.
        definition: what the source had meant by its own figures, as its own numbers show.
        warnings: what a reader must know before using the figures.
        num_draft_tokens: N, drafts a verify step plus one (with topk > 1: the size of the tree).
        histogram: ``histogram[i]`` verify steps accepted exactly i drafts.
        accept_length_ci95, accept_rate_ci95, survival_ci95: bootstrap over requests, or over log intervals (see
            ``spread.unit``).
        tokens_per_step: tokens that a verify step gave out, drafts beyond an answer's end not counted; what speed
            follows from. Known where the source tells completion tokens.
        weights: how means of intervals were weighed; None where counts were added up.
        parts: one a server, where the file holds several.
    """

    accept_length: float | None
    accept_rate: float | None
    survival: list[float] | None
    n: Size
    source: str
    definition: str
    warnings: list[str]
    num_draft_tokens: int | None = None
    histogram: list[int] | None = None
    accept_length_ci95: tuple[float, float] | None = None
    accept_rate_ci95: tuple[float, float] | None = None
    survival_ci95: list[tuple[float, float]] | None = None
    tokens_per_step: float | None = None
    weights: str | None = None
    spread: Spread | None = None
    parts: list[Part] = []

    def __str__(self) -> str:
        steps = "verify steps not told" if self.n.verify_steps is None else f"{self.n.verify_steps} verify steps"
        lines = [
            f"accept length {_shown(self.accept_length, self.accept_length_ci95)}   "
            f"accept rate {_shown(self.accept_rate, self.accept_rate_ci95)}   ({self.source}: {self.n.lines} "
            f"{'line' if self.n.lines == 1 else 'lines'}, {steps})"
        ]
        if self.survival:
            lines.append("survival " + ", ".join(f"S({k}) {s:.3f}" for k, s in enumerate(self.survival, start=1)))
        if self.spread:
            s = self.spread
            lines.append(
                f"accept length of {s.n} {s.unit}s: {s.least:.2f} to {s.most:.2f}, "
                f"median {s.median:.2f}, half of them in {s.quarter:.2f} to {s.three_quarters:.2f}"
            )
        for part in self.parts:
            lines.append(
                f"  {part.server}: accept length {_shown(part.accept_length)}, accept rate {_shown(part.accept_rate)}, "
                f"{part.n.lines} lines"
            )
        lines.append(f"meaning: {self.definition}")
        lines += [f"weights: {self.weights}"] if self.weights else []
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


def spread_of(values: Sequence[float], unit: str) -> Spread | None:
    """Quartiles of single values; None for fewer than two."""
    if len(values) < 2:
        return None
    points = [float(point) for point in np.percentile(np.asarray(values), [0, 25, 50, 75, 100])]
    return Spread(
        unit=unit,
        n=len(values),
        least=points[0],
        quarter=points[1],
        median=points[2],
        three_quarters=points[3],
        most=points[4],
    )


def _shown(value: float | None, interval: tuple[float, float] | None = None) -> str:
    if value is None:
        return "not told"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
