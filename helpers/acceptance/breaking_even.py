"""The accept length from which speculation pays, and how far several starts of the servers agree on it.

A break-even is a ratio of two step times, a verify step's over a plain decode step's. Both belong to a start: another
one of the same servers has others, which no bootstrap over prompts can see. So every start gives one ratio, n is the
number of starts, and the interval is Student's over their logarithms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.intervals import t_interval
from helpers.acceptance.load_records import Load

#: Said of a break-even that has no interval, and why.
ONCE = "one start, so no interval"

#: Said of a break-even below 1: the verify step holds the work of a plain one.
CONTRADICT = (
    "a verify step cannot be faster than a plain one, so the step times contradict each other (noise, or another load "
    "while one of them was measured)"
)


class Pass(BaseModel):
    """One pass over one server.

    Attributes:
        step_s: seconds per verify step (per token without speculation) after the first token; None where the pass lacks
            answers, or they tell no steps.
        decode_steps: its n. runs: of the servers that answered; more than one where the pass was cut and went on.
    """

    model_config = ConfigDict(frozen=True)

    step_s: float | None
    decode_steps: int
    runs: tuple[str, ...]


class BreakEven(BaseModel):
    """Accept length at which speculation is as fast as plain decoding.

    Attributes:
        accept_length: the geometric mean of ``by_start``.
        ci95: Student's, over starts; None with one, which tells nothing of another.
        starts: n: pairs of a start with speculation and one without, none of which has a server of another pair.
        by_start: the break-even of each.
    """

    model_config = ConfigDict(frozen=True)

    accept_length: float
    ci95: tuple[float, float] | None
    starts: int
    by_start: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.cell} ({self.basis})"

    @property
    def cell(self) -> str:
        """The figure, with its interval where it has one; a table says elsewhere what it is over."""
        span = "" if self.ci95 is None else f" [{self.ci95[0]:.2f}, {self.ci95[1]:.2f}]"
        return f"{self.accept_length:.2f}{span}"

    @property
    def basis(self) -> str:
        """What the interval is."""
        said = ONCE if self.ci95 is None else f"95% over {self.starts} starts"
        return f"{said}; below 1: {CONTRADICT}" if self.contradicts else said

    @property
    def contradicts(self) -> bool:
        """Whether it lies below 1, with its whole interval: that cannot be (`CONTRADICT`)."""
        return below_one(self.bounds)

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval; the figure itself, twice, where there is none."""
        return self.ci95 or (self.accept_length, self.accept_length)

    def against(self, accept_length: float) -> str:
        """``above``, ``below`` or ``within``: where an accept length lies."""
        return side_of(accept_length, self.bounds)


def side_of(accept_length: float, bounds: tuple[float, float]) -> str:
    """``above``, ``below`` or ``within``: where an accept length lies, seen from a break-even's interval."""
    low, high = bounds
    return "above" if accept_length > high else "below" if accept_length < low else "within"


def below_one(bounds: tuple[float, float]) -> bool:
    """Whether a break-even cannot be so: all of its interval says that a verify step is faster than a plain one.

    >>> below_one((0.8, 0.8)), below_one((0.8, 1.3))
    (True, False)
    """
    return bounds[1] < 1


def over_starts(ratios: Sequence[float]) -> BreakEven | None:
    """One break-even of those of single starts; None of none.

    >>> str(over_starts([2.8])), str(over_starts([2.8, 2.8, 2.8]))
    ('2.80 (one start, so no interval)', '2.80 [2.80, 2.80] (95% over 3 starts)')
    """
    if not ratios:
        return None
    if len(ratios) == 1:
        return BreakEven(accept_length=ratios[0], ci95=None, starts=1, by_start=tuple(ratios))
    mean, low, high = t_interval(ratios)
    return BreakEven(accept_length=mean, ci95=(low, high), starts=len(ratios), by_start=tuple(ratios))


def break_even_of(passes: Sequence[Pass], plain: Sequence[Pass]) -> BreakEven | None:
    """What the passes of a server that speculates and of one that does not make of it; None where they tell nothing.

    Pass i of the one belongs to pass i of the other. Pairs that share a server of either side are one start: asking it
    again tells nothing of another. Pairs of which a side lacks answers, or of which no run is known, are left out.
    """
    pairs = [
        (mine, its)
        for mine, its in zip(passes, plain, strict=False)
        if mine.step_s and its.step_s and mine.runs and its.runs
    ]
    return over_starts([_step(m for m, _ in start) / _step(i for _, i in start) for start in _starts(pairs)])


def pass_of(load: Load, runs: Iterable[str], *, speculates: bool) -> Pass:
    """A load as one pass.

    Args:
        runs: ids of the servers that answered it.
        speculates: whether a step is a verify step, which only counters tell.
    """
    told = [a for a in load.answers if a.arrivals and a.decode_steps]
    whole = load.asked is None or len(load.answers) == load.asked
    counted = not speculates or all(a.counters is not None for a in told)
    seconds, steps = sum(a.decode_s for a in told), sum(a.decode_steps for a in told)
    known = bool(steps) and whole and counted
    return Pass(step_s=seconds / steps if known else None, decode_steps=steps, runs=tuple(dict.fromkeys(runs)))


def _starts(pairs: Sequence[tuple[Pass, Pass]]) -> list[list[tuple[Pass, Pass]]]:
    found: list[tuple[set[str], list[tuple[Pass, Pass]]]] = []
    for mine, its in pairs:
        runs = {*mine.runs, *its.runs}
        same = [start for start in found if start[0] & runs]
        found = [start for start in found if not start[0] & runs]
        found.append((runs.union(*(names for names, _ in same)), [*(p for _, had in same for p in had), (mine, its)]))
    return [members for _, members in found]


def _step(passes: Iterable[Pass]) -> float:
    """Seconds of a step over several passes of one start."""
    each = list(passes)
    return sum((one.step_s or 0.0) * one.decode_steps for one in each) / sum(one.decode_steps for one in each)
