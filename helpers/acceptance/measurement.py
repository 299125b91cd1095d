"""What one configuration gave under load: the row of a report, with n and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.counters import pool
from helpers.acceptance.intervals import paired_difference, ratio_interval
from helpers.acceptance.load import Load, first_difference
from helpers.serving.profile import Profile


class Measurement(BaseModel):
    """One profile's acceptance and speed. Acceptance fields are None without speculation.

    Attributes:
        dtype: what it was served in; texts and rates are compared within one dtype.
        boundaries: the taps that the ids mean on this engine, in slot order.
        accept_rate: correct drafts / proposed drafts, pooled over all requests.
        ci95: interval of accept_rate, bootstrap over requests.
        survival: ``survival[i]`` is S(i + 1); survival_ci95 its intervals.
        verify_steps: n of the rates.
        requests: prompts answered.
        tokens_per_s: new tokens per second of request time, one request at a time.
        greedy_equal: every greedy text equals the baseline's.
        first_difference: (request, token) where a text first differs from the baseline's.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    dtype: str
    aux_layer_ids: list[int] | None
    boundaries: list[int] | None
    accept_length: float | None = None
    accept_rate: float | None = None
    ci95: tuple[float, float] | None = None
    survival: list[float] | None = None
    survival_ci95: list[tuple[float, float]] | None = None
    histogram: list[int] | None = None
    verify_steps: int | None = None
    requests: int
    tokens_per_s: float
    greedy_equal: bool
    first_difference: tuple[str, int] | None
    run: str | None = None


def measurement(
    profile: Profile,
    load: Load,
    baseline: Load,
    *,
    boundaries: Sequence[int] | None = None,
    run: str | None = None,
) -> Measurement:
    """Turns a load's answers into the row of a report.

    Args:
        profile: what was served; its draft steps decide how long ``survival`` is.
        baseline: the same prompts without speculation; the greedy texts are compared with it.
        boundaries: what the profile's ids tap on its engine, in slot order.
        run: id of the server's run.
    """
    difference = first_difference(load, baseline)
    common: dict[str, Any] = {
        "name": profile.name,
        "dtype": profile.dtype,
        "aux_layer_ids": None if profile.aux_layer_ids is None else list(profile.aux_layer_ids),
        "boundaries": None if boundaries is None else list(boundaries),
        "requests": len(load.answers),
        "tokens_per_s": load.tokens_per_s,
        "greedy_equal": difference is None,
        "first_difference": difference,
        "run": run,
    }
    if profile.speculation is None:
        return Measurement(**common)
    num_steps = profile.speculation.num_steps
    rows = load.counters
    pooled = pool(rows, num_steps=num_steps)
    steps = [float(r.verify_steps) for r in rows]
    reached = [[float(sum(r.histogram[k:])) for r in rows] for k in range(1, num_steps + 1)]
    return Measurement(
        **common,
        accept_length=pooled.accept_length,
        accept_rate=pooled.accept_rate,
        ci95=ratio_interval([float(r.correct) for r in rows], [float(r.proposed) for r in rows]),
        survival=list(pooled.survival),
        survival_ci95=[ratio_interval(at_least, steps) for at_least in reached],
        histogram=list(pooled.histogram),
        verify_steps=pooled.verify_steps,
    )


class PairedDifference(BaseModel):
    """Accept rate of one profile minus another's over the same prompts, with a paired 95% interval."""

    model_config = ConfigDict(frozen=True)

    first: str
    second: str
    difference: float
    ci95: tuple[float, float]
    requests: int


def compare(first_name: str, first: Load, second_name: str, second: Load) -> PairedDifference:
    """Paired comparison of two loads' accept rates; both answered the same prompts in the same order."""
    if [a.id for a in first.answers] != [a.id for a in second.answers]:
        raise ValueError(f"{first_name} and {second_name} answered different prompts")
    sides = [
        ([float(c.correct) for c in load.counters], [float(c.proposed) for c in load.counters])
        for load in (first, second)
    ]
    difference, interval = paired_difference(sides[0], sides[1])
    return PairedDifference(
        first=first_name, second=second_name, difference=difference, ci95=interval, requests=len(first.answers)
    )
