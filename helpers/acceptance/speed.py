"""What speed follows from acceptance and step times, what a loss is made of, and how many draft steps would be best.

Words and units: ``t0`` seconds of a plain decode step, ``t(k)`` seconds of a verify step with k draft steps (drafting
included), both with the same number of requests running; L(k) = 1 + S(1) + ... + S(k) tokens per verify step. Then

* speed with k draft steps = L(k) / t(k) tokens per second and request, against 1 / t0 without speculation;
* break-even accept length = t(k) / t0: below it, speculation loses; above k + 1 it cannot win whatever is accepted.

Everything here is arithmetic on numbers that are given; nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.acceptance.breaking_even import BreakEven
from helpers.acceptance.intervals import ratio_interval
from helpers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]

#: Measured means of requests in flight are never the very same; a twentieth apart they count as equal batches.
ALIKE = 1.05


@dataclass(frozen=True)
class StepTime:
    """Measured seconds of one step.

    Attributes:
        num_steps: draft steps in it; 0 for a plain decode step.
        seconds: mean.
        running: requests in the batch; times of unequal batches are not compared.
        ci95: of ``seconds``, where it is known.
    """

    num_steps: int
    seconds: float
    running: float = 1.0
    ci95: Interval | None = None

    def __post_init__(self) -> None:
        if self.num_steps < 0 or not self.seconds > 0 or not self.running > 0:
            raise UsageError(
                "WB-SPEED-INPUT",
                f"a step of {self.num_steps} draft steps took {self.seconds} s with {self.running} requests running",
                expected="num_steps >= 0, and seconds and running requests above 0",
                next="check the measured times",
            )


@dataclass(frozen=True)
class StepCost:
    """t(k) = verify + k * draft, in seconds, and what had to be assumed to get it."""

    verify: float
    draft: float
    baseline: float
    assumption: str | None
    measured: Mapping[int, float]

    def seconds(self, num_steps: int) -> float:
        """Of one step with `num_steps` draft steps: as it was measured where it was, else by the line."""
        if num_steps == 0:
            return self.baseline
        return self.measured.get(num_steps, self.verify + num_steps * self.draft)

    @property
    def impossible(self) -> tuple[int, ...]:
        """The measured numbers of steps whose verify step was faster than a plain one, which cannot be."""
        return tuple(k for k, seconds in self.measured.items() if seconds < self.baseline)


@dataclass(frozen=True)
class Predicted:
    """One number of draft steps.

    Attributes:
        accept_length, seconds, tokens_per_s: predicted, per request.
        accept_length_ci95, tokens_per_s_ci95: from the interval of the survival (and of a measured step time).
        bounds: tokens/s if no draft, and if every draft, beyond the measured steps were accepted: what no assumption
            about survival can leave; equal to tokens_per_s within the measured steps.
        ratio: speed against plain decoding.
        break_even: accept length at which speeds are equal; above num_steps + 1 it is out of reach.
        over_starts: the same with its interval, where this number of steps was measured in several starts; then
            ``break_even`` is its mean, which weighs starts alike, and ``ratio`` stays that of all steps together.
        survival_measured, seconds_measured: whether they were, or follow from the assumptions.
    """

    num_steps: int
    accept_length: float
    accept_length_ci95: Interval | None
    seconds: float
    tokens_per_s: float
    tokens_per_s_ci95: Interval | None
    bounds: Interval
    ratio: float
    break_even: float
    survival_measured: bool
    seconds_measured: bool
    over_starts: BreakEven | None = None


@dataclass(frozen=True)
class Loss:
    """What lies between a perfect drafter for nothing and what is.

    speed = baseline * (num_steps + 1) * acceptance * overhead: all drafts accepted and free would give
    baseline * (num_steps + 1). The shares are of the loss on a log scale, where the two factors add up. There are none
    (None) where a verify step was measured faster than a plain one: an overhead cannot give speed back.

    Attributes:
        acceptance: L / (num_steps + 1).
        overhead: t0 / t(k).
    """

    num_steps: int
    acceptance: float
    overhead: float

    @property
    def acceptance_share(self) -> float | None:
        return self._share_of(self.acceptance)

    @property
    def overhead_share(self) -> float | None:
        return self._share_of(self.overhead)

    def _share_of(self, factor: float) -> float | None:
        if self.overhead > 1:
            return None
        total = math.log(self.acceptance) + math.log(self.overhead)
        return math.log(factor) / total if total else 0.0


@dataclass(frozen=True)
class SpeedModel:
    """Predictions for 1..max_steps draft steps, the loss at the measured number, and both in sentences.

    Attributes:
        what_if: the same predictions for another accept rate, where one was asked for.
        baseline_ci95: of ``baseline_tokens_per_s``, where the plain step time has an interval.
        starts: of the servers whose step times these are, the fewest of one; None where that is not known.
    """

    baseline_tokens_per_s: float
    running: float
    cost: StepCost
    points: tuple[Predicted, ...]
    loss: Loss
    assumptions: tuple[str, ...]
    what_if: tuple[Predicted, ...] = ()
    sentences: tuple[str, ...] = field(default=())
    starts: int | None = None
    baseline_ci95: Interval | None = None

    @property
    def best(self) -> Predicted | None:
        """The fastest point; None where one number of steps was measured, which does not tell what a draft costs, and
        where the step times contradict each other."""
        told = len(self.cost.measured) > 1 and not self.cost.impossible
        return max(self.points, key=lambda p: p.tokens_per_s) if told else None

    def at(self, num_steps: int) -> Predicted:
        return next(p for p in self.points if p.num_steps == num_steps)


def measured_step(num_steps: int, seconds: Sequence[float], steps: Sequence[int], *, running: float = 1.0) -> StepTime:
    """Mean step time over requests, with its 95% interval (bootstrap over requests).

    Args:
        seconds: of each request's decoding: from its first token to its last.
        steps: verify steps of each request; without speculation its new tokens but the first.

    >>> measured_step(3, [0.25, 0.5], [10, 20]).seconds
    0.025
    """
    if len(seconds) != len(steps) or not sum(steps):
        raise UsageError(
            "WB-SPEED-INPUT",
            f"{len(seconds)} times and {len(steps)} requests with {sum(steps)} steps",
            expected="seconds and steps of the same requests",
            next="give both of each request",
        )
    counts = [float(n) for n in steps]
    ci95 = ratio_interval(seconds, counts) if len(steps) > 1 else None
    return StepTime(num_steps, sum(seconds) / sum(counts), running, ci95)


def step_of_log(num_steps: int, rows: pd.DataFrame, *, running: int = 1) -> StepTime:
    """Step time from a server's log alone: running requests x accept length / throughput, the median of its intervals.

    An interval in which the server was idle for a while shows too long a step; the median leaves few of them.

    Args:
        rows: as `helpers.acceptance.sources.decode_rows` gives; intervals with ``running`` requests are used.
    """
    used = rows[(rows["running"] == running) & (rows["throughput"] > 0)]
    if used.empty:
        raise UsageError(
            "WB-SPEED-INPUT",
            f"no log interval has {running} requests running, of {len(rows)}",
            expected="decode lines with that many requests",
            next="rows['running'].value_counts() shows what there is",
        )
    seconds = running * used["accept_length"] / used["throughput"]
    return StepTime(num_steps, float(seconds.median()), running)


def break_even(verify_seconds: float, decode_seconds: float) -> float:
    """Accept length at which speculation is as fast as plain decoding.

    >>> break_even(0.030, 0.012)
    2.5
    """
    return verify_seconds / decode_seconds


def step_cost(times: Sequence[StepTime]) -> StepCost:
    """A line through the measured step times.

    Args:
        times: one with num_steps 0 (plain decoding), and at least one with draft steps, batches of one size.

    Raises:
        UsageError: ``WB-SPEED-INPUT`` when one of the two is missing, or batches are unequal.

    >>> step_cost([StepTime(0, 0.010), StepTime(1, 0.016), StepTime(3, 0.028)]).seconds(2)
    0.022
    """
    plain = [t for t in times if t.num_steps == 0]
    verify = sorted((t for t in times if t.num_steps > 0), key=lambda t: t.num_steps)
    running = {t.running for t in times}
    unequal = max(running, default=1.0) > ALIKE * min(running, default=1.0)
    if len(plain) != 1 or not verify or len({t.num_steps for t in verify}) != len(verify) or unequal:
        raise UsageError(
            "WB-SPEED-INPUT",
            f"step times of num_steps {sorted(t.num_steps for t in times)} with {sorted(running)} requests running",
            expected="one time with num_steps 0 (plain decoding) and one of each number of draft steps, equal batches",
            next="measure the baseline with as many requests running as the candidate: workbook bench BOX RUN",
        )
    measured = {t.num_steps: t.seconds for t in verify}
    if len(verify) == 1:
        one = verify[0]
        base = min(plain[0].seconds, one.seconds)
        return StepCost(
            verify=base,
            draft=(one.seconds - base) / one.num_steps,
            baseline=plain[0].seconds,
            assumption=f"step times beyond num_steps {one.num_steps}: a verify pass costs a plain decode step, the "
            "rest is shared evenly by the draft steps (one number of steps was measured)",
            measured=measured,
        )
    mean_k = sum(t.num_steps for t in verify) / len(verify)
    mean_t = sum(t.seconds for t in verify) / len(verify)
    draft = sum((t.num_steps - mean_k) * (t.seconds - mean_t) for t in verify) / sum(
        (t.num_steps - mean_k) ** 2 for t in verify
    )
    told = ", ".join(str(t.num_steps) for t in verify)
    return StepCost(
        verify=mean_t - draft * mean_k,
        draft=draft,
        baseline=plain[0].seconds,
        assumption=f"step times other than of num_steps {told}: on the straight line through those",
        measured=measured,
    )
