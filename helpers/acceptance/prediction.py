"""The speed model put together: survival, measured and then continued by a named assumption, over step times.

>>> from helpers.acceptance.speed import StepTime
>>> times = [StepTime(0, 0.010), StepTime(1, 0.016), StepTime(3, 0.028)]
>>> model = speed_model((0.8, 0.6, 0.5), times, num_steps=3)
>>> round(model.at(3).tokens_per_s, 1), model.at(3).break_even, model.best.num_steps
(103.6, 2.8, 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from helpers.acceptance.breaking_even import BreakEven
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.intervals import DRAWS
from helpers.acceptance.speed import Interval, Loss, Predicted, SpeedModel, StepCost, StepTime, step_cost
from helpers.acceptance.speed_words import sentences
from helpers.errors import UsageError

Draws = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Drawn = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CONTINUED = (
    "survival beyond {m} draft steps: each further draft is accepted, given the one before it, as often as the last "
    "measured one ({c:.1%}); `bounds` are without this assumption"
)
SAME_TEXT = (
    "the survival measured with num_steps {m} holds for fewer steps too: a chain's drafts do not look ahead, though "
    "verify steps begin elsewhere in the text (3% of the accept length in the lab)"
)


def speed_model(
    survival: Sequence[float],
    times: Sequence[StepTime],
    *,
    num_steps: int,
    requests: Sequence[RequestCounters] | None = None,
    max_steps: int = 8,
    what_if: float | None = None,
    seed: int = 0,
    starts: int | None = None,
    break_evens: Mapping[int, BreakEven] | None = None,
) -> SpeedModel:
    """Predicts tokens/s per request for 1..max_steps draft steps.

    Args:
        survival: S(1)..S(num_steps) of a chain (topk = 1), as measured with ``num_steps`` draft steps.
        times: measured step times: one with num_steps 0 (plain decoding), one or more with draft steps, equal batches.
        num_steps: of the configuration that the loss is told for; its step time should be among ``times``.
        requests: the counters behind ``survival``, for intervals (bootstrap over requests).
        what_if: an accept rate, such as that of a mended wiring, to be held against the same step times.
        starts: how often each of the servers behind ``times`` was started; with one, no interval knows of restarts.
        break_evens: by num_steps, where it is known start by start; those of one start have no interval to add.

    Raises:
        UsageError: ``WB-SPEED-INPUT`` when the numbers cannot belong together.
    """
    cost = step_cost(times)
    known = [float(s) for s in survival]
    _check(known, num_steps)
    drawn = None if not requests or len(requests) < 2 else _draw(requests, len(known), seed)
    spreads: dict[int, Interval | None] = {t.num_steps: t.ci95 for t in times}
    needed = {k: one for k, one in (break_evens or {}).items() if one.ci95 is not None}
    every = {k: _point(k, known, cost, drawn, spreads, seed) for k in sorted({*range(1, max_steps + 1), num_steps})}
    for k, one in needed.items():
        if k in every:
            every[k] = replace(every[k], break_even=one.accept_length, over_starts=one)
    points, at = tuple(every[k] for k in range(1, max_steps + 1)), every[num_steps]
    assumptions = [SAME_TEXT.format(m=len(known))]
    if max_steps > len(known):
        assumptions.append(CONTINUED.format(m=len(known), c=_conditional(known)))
    if cost.assumption:
        assumptions.append(cost.assumption)
    assumptions.append("answers are long: tokens cut at an answer's end, prefill and queueing are in none of it")
    model = SpeedModel(
        baseline_tokens_per_s=1 / cost.baseline,
        running=times[0].running,
        cost=cost,
        points=points,
        loss=Loss(num_steps, at.accept_length / (num_steps + 1), cost.baseline / at.seconds),
        assumptions=tuple(assumptions),
        starts=starts,
        baseline_ci95=None if spreads[0] is None else (1 / spreads[0][1], 1 / spreads[0][0]),
    )
    if what_if is None:
        return replace(model, sentences=sentences(model, at))
    model = replace(model, what_if=_what_if(what_if, num_steps, cost, max_steps))
    return replace(model, sentences=sentences(model, at, accept_rate=what_if))


def continued(survival: Sequence[float], max_steps: int) -> list[float]:
    """S(1)..S(max_steps): as measured, then with the last conditional acceptance held constant.

    >>> [round(s, 4) for s in continued((0.8, 0.4), 4)]
    [0.8, 0.4, 0.2, 0.1]
    """
    known = [float(s) for s in survival][:max_steps]
    ratio = _conditional(known)
    return known + [known[-1] * ratio**j for j in range(1, max_steps - len(known) + 1)]


def constant_acceptance(accept_rate: float, num_steps: int) -> float:
    """The acceptance p of each draft given the one before: (p + p^2 + ... + p^num_steps) / num_steps = accept_rate.

    For a rate that was told without its survival.

    >>> round(constant_acceptance(0.5, 1), 6), round(constant_acceptance((0.8 + 0.64) / 2, 2), 6)
    (0.5, 0.8)
    """
    if not 0 <= accept_rate <= 1 or num_steps < 1:
        raise _input(f"an accept rate of {accept_rate} with num_steps {num_steps}", "a rate in 0..1, num_steps >= 1")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**i for i in range(1, num_steps + 1)) / num_steps < accept_rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def survival_of_rate(accept_rate: float, num_steps: int) -> tuple[float, ...]:
    """S(1)..S(num_steps) that a rate alone stands for, were each draft accepted alike (see `constant_acceptance`)."""
    p = constant_acceptance(accept_rate, num_steps)
    return tuple(p**k for k in range(1, num_steps + 1))


def order_contradictions(
    predicted: Mapping[str, float], measured: Mapping[str, tuple[float, float, float]]
) -> list[tuple[str, str]]:
    """Pairs (slower, faster) by measurement, their intervals apart, that the prediction orders otherwise.

    Args:
        predicted: tokens/s by configuration.
        measured: (tokens/s, low, high) by configuration; those in both are compared.

    >>> order_contradictions({"a": 1.0, "b": 2.0}, {"a": (9, 8, 10), "b": (5, 4, 6)})
    [('b', 'a')]
    """
    names = [name for name in measured if name in predicted]
    return [
        (slow, fast)
        for slow in names
        for fast in names
        if measured[slow][2] < measured[fast][1] and predicted[slow] >= predicted[fast]
    ]


def _what_if(accept_rate: float, num_steps: int, cost: StepCost, max_steps: int) -> tuple[Predicted, ...]:
    survival = survival_of_rate(accept_rate, num_steps)
    steps = sorted({*range(1, max_steps + 1), num_steps})
    return tuple(_point(k, list(survival), cost, None, {}, 0) for k in steps)


def _point(
    k: int,
    known: list[float],
    cost: StepCost,
    drawn: Draws | None,
    spreads: Mapping[int, Interval | None],
    seed: int,
) -> Predicted:
    length, seconds = 1 + sum(continued(known, k)), cost.seconds(k)
    if seconds <= 0:
        raise _input(f"the step times make a step of {k} draft steps take {seconds:g} s", "times that grow with steps")
    beyond = max(0, k - len(known))
    least = 1 + sum(known[:k])
    length_ci, speed_ci = None, None
    if drawn is not None:
        lengths = _lengths(drawn, k)
        length_ci, speed_ci = _bounds(lengths), _bounds(lengths / _times(seconds, spreads.get(k), len(lengths), seed))
    return Predicted(
        num_steps=k,
        accept_length=length,
        accept_length_ci95=length_ci,
        seconds=seconds,
        tokens_per_s=length / seconds,
        tokens_per_s_ci95=speed_ci,
        bounds=(least / seconds, (least + beyond * known[-1]) / seconds),
        ratio=length / seconds * cost.baseline,
        break_even=seconds / cost.baseline,
        survival_measured=beyond == 0,
        seconds_measured=k in cost.measured,
    )


def _draw(requests: Sequence[RequestCounters], steps: int, seed: int) -> Draws:
    """Survival of each bootstrap draw over requests, [draws, steps]."""
    reached = np.asarray([[sum(r.histogram[k:]) for k in range(1, steps + 1)] for r in requests], dtype=float)
    verify = np.asarray([r.verify_steps for r in requests], dtype=float)
    picks = np.random.default_rng(seed).integers(0, len(requests), size=(DRAWS, len(requests)))
    drawn: Draws = reached[picks].sum(1) / verify[picks].sum(1)[:, None]
    return drawn


def _lengths(drawn: Draws, k: int) -> Drawn:
    known = drawn.shape[1]
    lengths: Drawn = 1 + drawn[:, : min(k, known)].sum(1)
    if k > known:
        before = drawn[:, -2] if known > 1 else np.ones(len(drawn))
        ratio = np.divide(drawn[:, -1], before, out=np.zeros(len(drawn)), where=before > 0)
        lengths = lengths + sum(drawn[:, -1] * ratio**j for j in range(1, k - known + 1))
    return lengths


def _times(seconds: float, ci: Interval | None, draws: int, seed: int) -> Drawn:
    if ci is None:
        return np.full(draws, seconds)
    times = np.random.default_rng(seed + 1).normal(seconds, (ci[1] - ci[0]) / 3.92, draws)
    return np.maximum(times, 1e-3 * seconds)


def _bounds(values: Drawn) -> Interval:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _conditional(known: Sequence[float]) -> float:
    before = known[-2] if len(known) > 1 else 1.0
    return known[-1] / before if before > 0 else 0.0


def _check(known: Sequence[float], num_steps: int) -> None:
    falling = all(a >= b for a, b in zip([1.0, *known], known, strict=False))
    if not known or not falling or known[-1] < 0 or num_steps < 1:
        raise _input(
            f"survival {[round(s, 4) for s in known]} with num_steps {num_steps}",
            "1 >= S(1) >= S(2) >= ... >= 0, one for each draft step",
        )


def _input(met: str, expected: str) -> UsageError:
    return UsageError("WB-SPEED-INPUT", met, expected=expected, next="check the measured figures")
