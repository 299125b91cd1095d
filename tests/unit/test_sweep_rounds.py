"""Rounds of a sweep: speeds over starts, acceptance by pooled counts, the model's order against the measured one."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.acceptance.intervals import t_interval
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.speed_check import order_of
from helpers.acceptance.sweep_results import Sweep, sweep_frame
from helpers.acceptance.sweep_rounds import Rounds, pooled_frame, rounds_text
from helpers.acceptance.sweep_state import Row

SURVIVAL = [0.8, 0.64, 0.512, 0.4096]


def row(k: int, seconds: float, histogram: list[int] | None = None, **changes: Any) -> Row:
    """A point of `k` draft steps (0: the baseline) whose step took so long."""
    counts = histogram or [round(1000 * (a - b)) for a, b in zip([1, *SURVIVAL[:k]], [*SURVIVAL[:k], 0], strict=True)]
    survival = [sum(counts[i:]) / sum(counts) for i in range(1, k + 1)]
    found = Measurement(
        name=f"steps{k}",
        dtype="float32",
        aux_layer_ids=None,
        boundaries=None,
        requests=4,
        tokens_per_s=(1 + sum(survival)) / seconds,
        greedy_equal=None,
        first_difference=None,
        step_s=seconds,
        step_s_ci95=(seconds * 0.999, seconds * 1.001),
    )
    if k:
        found = found.model_copy(
            update={
                "survival": survival,
                "survival_ci95": [(s - 0.1, s + 0.1) for s in survival],
                "histogram": counts,
                "accept_rate": sum(survival) / k,
                "ci95": (0.1 * sum(counts) / 1000, 0.9),
                "accept_length": 1 + sum(survival),
                "verify_steps": sum(counts),
            }
        )
    axes = {"profile": "right" if k else "baseline", "num_steps": k or None, "topk": 1, "batch_size": 1}
    return Row(point=f"steps{k}", status="done", baseline=not k, axes=axes, measurement=found).model_copy(
        update=changes
    )


def test_students_interval_of_logarithms() -> None:
    """By hand: ln 8 and ln 2 have the mean ln 4 and the standard error ln 2, times 12.706 at one degree of freedom."""
    mean, low, high = t_interval([8.0, 2.0])
    assert mean == pytest.approx(4.0)
    assert math.log(high / mean) == pytest.approx(12.706 * math.log(2))
    assert math.log(mean / low) == pytest.approx(12.706 * math.log(2))
    assert t_interval([3.0] * 40) == pytest.approx((3.0, 3.0, 3.0))


def test_a_slow_start_widens_the_interval_so_that_no_order_is_read_from_it() -> None:
    """One start at half the speed, as was seen: alone it contradicts the model, among three it is not apart."""
    times = {0: 0.010, 1: 0.016, 2: 0.022, 3: 0.028, 4: 0.034}
    slow = [row(k, seconds * (2 if k == 1 else 1)) for k, seconds in times.items()]
    alone = order_of(sweep_frame(slow))
    assert alone.contradictions
    fair = [[row(k, seconds * factor) for k, seconds in times.items()] for factor in (1.0, 1.01)]
    pooled = pooled_frame([sweep_frame(rows) for rows in (slow, *fair)]).set_index("point")
    assert list(pooled["rounds"]) == [3] * 5
    assert pooled.loc["steps1", "step_s_high"] > 2 * pooled.loc["steps1", "step_s"]
    assert pooled.loc["steps3", "step_s_high"] < 1.03 * pooled.loc["steps3", "step_s"]
    assert not [pair for pair in order_of(pooled.reset_index()).contradictions if "steps1" in pair]


def test_a_slow_round_is_slow_for_all_its_points_and_widens_nothing() -> None:
    times = {0: 0.010, 1: 0.016, 2: 0.022, 3: 0.028}
    rounds = [[row(k, seconds * factor) for k, seconds in times.items()] for factor in (1.0, 3.0, 0.9)]
    pooled = pooled_frame([sweep_frame(rows) for rows in rounds]).set_index("point")
    for k, seconds in times.items():
        mean, low, high = pooled.loc[f"steps{k}", ["step_s", "step_s_low", "step_s_high"]]
        assert mean == pytest.approx(seconds * 2.7 ** (1 / 3))
        assert (low, high) == (pytest.approx(mean), pytest.approx(mean))
    order = order_of(pooled.reset_index())
    assert (order.apart, order.contradictions) == (3, ())


def test_the_order_counts_pairs_that_are_apart() -> None:
    times = {0: 0.010, 1: 0.016, 2: 0.022, 3: 0.028, 4: 0.034}
    order = order_of(sweep_frame([row(k, seconds) for k, seconds in times.items()]))
    assert (order.points, order.contradictions) == (4, ())
    assert order.apart == 6
    assert max(map(abs, order.errors.values())) < 1e-3
    assert "of 6 pairs whose intervals are apart it orders 6 as measured" in order.lines()[0]
    assert order_of(sweep_frame([row(0, 0.01)])).lines() == [
        "speed model: no curve has three numbers of draft steps and a baseline, so nothing was predicted"
    ]


def test_counts_that_differ_are_pooled_and_the_interval_is_the_widest() -> None:
    first, second = row(1, 0.02, [50, 50]), row(1, 0.02, [100, 200])
    [pooled] = pooled_frame([sweep_frame([first]), sweep_frame([second])]).to_dict("records")
    assert pooled["histogram"] == [150, 250]
    assert (pooled["accept_rate"], pooled["verify_steps"]) == (250 / 400, 400)
    assert pooled["survival_ci95"] == [(pytest.approx(0.4), pytest.approx(200 / 300 + 0.1))]
    assert (pooled["low"], pooled["high"]) == (pytest.approx(0.01), 0.9)


def test_what_failed_in_a_round_counts_in_the_others(tmp_path: Path) -> None:
    failed = row(1, 0.5, status="failed", measurement=None)
    sweeps = tuple(
        Sweep(tmp_path / f"round-{n}", rows, ()) for n, rows in enumerate([(row(1, 0.02),), (failed,), (failed,)], 1)
    )
    found = Rounds(tmp_path, sweeps)
    assert not found.good
    [told] = found.record()["speeds"]
    assert (told["rounds"], told["step_s"], told["step_s_low"]) == (1, pytest.approx(0.02), None)
    text = rounds_text(found)
    assert "round 2: 1 failed" in text
    assert "steps1" in text
    nothing = rounds_text(Rounds(tmp_path, sweeps[1:]))
    assert re.search(r"steps1 +0 +- +- +- +- +- +-", nothing)
