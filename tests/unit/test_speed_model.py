"""The speed model, by arithmetic worked by hand.

.venv/bin/python -m pytest tests/unit/test_speed_model.py
"""

from __future__ import annotations

import pandas as pd
import pytest

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.prediction import (
    constant_acceptance,
    continued,
    order_contradictions,
    speed_model,
    survival_of_rate,
)
from helpers.acceptance.speed import StepTime, break_even, measured_step, step_cost, step_of_log
from helpers.acceptance.speed_check import held_out, model_of
from helpers.acceptance.sweep_results import sweep_frame
from helpers.acceptance.sweep_state import Row
from helpers.acceptance.tables import prediction_rows
from helpers.errors import UsageError
from helpers.figures.said import forecast, throughput

# Plain decoding 10 ms; a verify step 10 ms and 6 ms a draft.
TIMES = [StepTime(0, 0.010), StepTime(1, 0.016), StepTime(3, 0.028)]


def test_by_hand() -> None:
    """S = .8, .6, .5: L(3) = 2.9, 28 ms, 103.571 tok/s; L(2) = 2.4 over 22 ms; L(1) = 1.8 over 16 ms."""
    model = speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3)
    assert model.baseline_tokens_per_s == pytest.approx(100)
    assert [p.tokens_per_s for p in model.points[:3]] == pytest.approx([1.8 / 0.016, 2.4 / 0.022, 2.9 / 0.028])
    assert [p.break_even for p in model.points[:3]] == pytest.approx([1.6, 2.2, 2.8])
    assert model.at(3).ratio == pytest.approx(2.9 / 2.8)
    assert model.best is not None
    assert model.best.num_steps == 1
    assert [p.seconds_measured for p in model.points[:3]] == [True, False, True]
    assert all(p.bounds == pytest.approx((p.tokens_per_s, p.tokens_per_s)) for p in model.points[:3])
    assert break_even(0.028, 0.010) == pytest.approx(2.8)


def test_beyond_what_was_measured_the_last_conditional_acceptance_holds() -> None:
    """S(4) = .5 * .5/.6 = .41667; nothing accepted: L = 2.9, everything: 3.4; t(4) = 34 ms."""
    point = speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3).at(4)
    assert point.accept_length == pytest.approx(2.9 + 0.5 * 0.5 / 0.6)
    assert point.bounds == pytest.approx((2.9 / 0.034, 3.4 / 0.034))
    assert not point.survival_measured
    assert continued((0.5,), 3) == pytest.approx([0.5, 0.25, 0.125])
    assert continued((0.5, 0.0), 4) == [0.5, 0.0, 0.0, 0.0]


def test_assumptions_are_said() -> None:
    told = " / ".join(speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3).assumptions)
    assert "survival beyond 3 draft steps" in told
    assert "(83.3%)" in told
    assert "on the straight line through those" in told
    few = " / ".join(speed_model((0.8, 0.6, 0.5), [TIMES[0], TIMES[2]], num_steps=3, max_steps=3).assumptions)
    assert "a verify pass costs a plain decode step" in few
    assert "survival beyond" not in few


def test_one_measured_number_of_steps_names_no_best_one() -> None:
    """The one step time fits a dear draft and a dear verify pass alike, and each has another best number."""
    model = speed_model((0.8, 0.6, 0.5), [TIMES[0], TIMES[2]], num_steps=3, what_if=0.9)
    told = " / ".join(model.sentences)
    assert model.best is None
    assert "no best number of draft steps is named: only num_steps 3 was measured" in told
    assert "assumed: step times beyond num_steps 3: a verify pass costs a plain decode step" in told
    assert "the best" not in told
    assert "is predicted to be faster" not in told
    assert " steps would give " not in told
    assert "the best of 1 to 8" in " / ".join(speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3).sentences)


def test_one_start_is_said() -> None:
    """A pass that was cut and went on has two runs and is one start; where no run is known, nothing is said."""
    base, three = measured("plain", 0, 0.010), measured("three", 3, 0.028, [0.8, 0.6, 0.5])
    for runs, passes, said in (("a", 1, True), ("a, b", 1, True), ("a, b", 2, False), (None, 1, False)):
        row = three.model_copy(update={"run": runs, "passes": passes})
        told = " / ".join(model_of(row, base).sentences)
        assert ("one start: the break-even has no interval" in told) is said, runs


def test_loss_is_acceptance_times_overhead() -> None:
    """Of 400 tok/s (four tokens a step for nothing) acceptance leaves 290, overhead 103.571."""
    model = speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3)
    loss = model.loss
    assert loss.acceptance == pytest.approx(0.725)
    assert loss.overhead == pytest.approx(1 / 2.8)
    assert model.baseline_tokens_per_s * 4 * loss.acceptance * loss.overhead == pytest.approx(model.at(3).tokens_per_s)
    assert loss.acceptance_share is not None
    assert loss.overhead_share is not None
    assert loss.acceptance_share + loss.overhead_share == pytest.approx(1)
    assert loss.acceptance_share == pytest.approx(0.238, abs=0.001)  # ln .725 / (ln .725 + ln .357)


def test_a_step_so_slow_that_nothing_helps() -> None:
    model = speed_model((0.9,), [StepTime(0, 0.010), StepTime(1, 0.025)], num_steps=1, max_steps=2)
    assert "cannot reach that whatever is accepted (at most 2)" in model.sentences[0]


def test_the_case() -> None:
    """design.md's case: base 90 tok/s, 19% accepted 54.8, then 47%. Its number of draft steps is not told; with 4:

    L = 1 + 4 * .19 = 1.76, so a step took 1.76 / 54.8 = 32.1 ms, and 47% (L = 2.88) would give 89.7 tok/s.
    """
    step = (1 + 4 * 0.19) / 54.8
    times = [StepTime(0, 1 / 90), StepTime(4, step)]
    model = speed_model(survival_of_rate(0.19, 4), times, num_steps=4, what_if=0.47)
    assert model.at(4).tokens_per_s == pytest.approx(54.8, abs=0.01)
    assert model.at(4).break_even == pytest.approx(90 * 1.76 / 54.8)
    same = next(p for p in model.what_if if p.num_steps == 4)
    assert same.tokens_per_s == pytest.approx(2.88 / step, rel=1e-6)
    three = next(p for p in model.what_if if p.num_steps == 3)
    # (t(4) - t0) / 4 a draft; p + p^2 + p^3 + p^4 = 1.88 at p = .71993, so L(3) = 2.6114.
    assert three.tokens_per_s == pytest.approx(2.6114 / (1 / 90 + 3 * (step - 1 / 90) / 4), rel=1e-4)
    assert three.tokens_per_s > 90
    told = " / ".join(model.sentences)
    assert "at this step time even 47% accepted cannot beat 90.0 tok/s (89.7 tok/s)" in told
    assert "it has 1.76 and whether it wins is not decided by these measurements: 54.8 tok/s, 0.61 times" in told
    assert "50% of the loss is acceptance" in told


ALIKE = [RequestCounters((2, 2, 2, 4), 30), RequestCounters((1, 1, 2, 6), 30), RequestCounters((5, 3, 1, 1), 30)]
OF_ALIKE = (22 / 30, 16 / 30, 11 / 30)  # accept length 2.63, between 1.9 and 3.3 by request


@pytest.mark.parametrize(
    ("verify", "said", "shown"),
    [
        (0.015, "it has 2.63 and wins: ", "speculation pays"),
        (0.026, "it has 2.63 and whether it wins is not decided by these measurements: ", "may pay or not"),
        (0.027, "it has 2.63 and whether it wins is not decided by these measurements: ", "may pay or not"),
        (0.036, "it has 2.63 and loses: ", "does not pay"),
    ],
)
def test_sentence_and_figure_part_speeds_by_one_rule(verify: float, said: str, shown: str) -> None:
    """Plain decoding 10 ms: break-even 1.5, 2.6, 2.7 and 3.6; with 26 ms it is ahead by a hair, and shows nothing."""
    times = [StepTime(0, 0.010), StepTime(3, verify)]
    model = speed_model(OF_ALIKE, times, num_steps=3, requests=ALIKE)
    assert said in model.sentences[0]
    assert shown in forecast(prediction_rows(model), baseline=100.0, num_steps=3)


@pytest.mark.parametrize(
    ("plain", "starts", "said", "shown"),
    [
        (None, None, "wins: ", "speculation pays"),
        ((0.0096, 0.0104), 3, "wins: ", "speculation pays"),
        ((0.005, 0.015), 3, "whether it wins is not decided by these measurements: ", "may pay or not"),
        ((0.0096, 0.0104), 1, "whether it wins is not decided by these measurements (one start): ", "(one start)"),
    ],
)
def test_the_baseline_is_measured_too_and_one_start_decides_nothing(
    plain: tuple[float, float] | None, starts: int | None, said: str, shown: str
) -> None:
    """Plain decoding 100 tok/s: by its own interval anything from 67 to 200, which holds what speculation gives."""
    times = [StepTime(0, 0.010, ci95=plain), StepTime(3, 0.015)]
    model = speed_model(OF_ALIKE, times, num_steps=3, requests=ALIKE, starts=starts)
    assert f"it has 2.63 and {said}" in model.sentences[0]
    rows = prediction_rows(model)
    assert shown in forecast(rows, baseline=100.0, num_steps=3)
    if plain is not None:
        assert model.baseline_ci95 == pytest.approx((1 / plain[1], 1 / plain[0]))
        assert (rows.loc[0, "baseline_low"], rows.loc[0, "baseline_high"]) == pytest.approx(model.baseline_ci95)


def test_one_start_loses_no_more_than_it_wins() -> None:
    times = [StepTime(0, 0.010), StepTime(3, 0.036)]
    for starts, said in ((1, "not decided by these measurements (one start)"), (2, "it has 2.63 and loses")):
        model = speed_model(OF_ALIKE, times, num_steps=3, requests=ALIKE, starts=starts)
        assert said in model.sentences[0]


def test_a_figure_of_speeds_takes_the_baselines_interval_and_the_starts() -> None:
    columns = ["profile", "num_steps", "accept_length", "tokens_per_s", "low", "high"]
    rows = pd.DataFrame([("right", 3, 1.70, 52.0, 50.9, 53.0)], columns=columns)
    seconds = {3: 1.70 / 52.0}
    assert "is faster than" in throughput(rows, baseline=50.5, step_seconds=seconds)
    wide = throughput(rows, baseline=50.5, step_seconds=seconds, baseline_ci95=(48.0, 53.0))
    assert "is not told from no speculation: " in wide
    once = throughput(rows.assign(starts=1), baseline=50.5, step_seconds=seconds)
    assert "is not told from no speculation (one start): " in once


def test_no_interval_decides_nothing() -> None:
    """Of one request there is none: neither the sentence nor the figure may decide by the figure alone."""
    model = speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3, requests=ALIKE[:1])
    assert "whether it wins is not decided by these measurements" in model.sentences[0]
    told = forecast(prediction_rows(model), baseline=100.0, num_steps=3)
    assert "may pay or not" in told
    assert "103.6 tok/s against 100.0 without" in told, "no interval without width"


def test_a_verify_step_faster_than_a_plain_one_is_no_finding() -> None:
    """20.3 ms against 25.3: a break-even of .80, and the overhead would have given speed back."""
    times = [StepTime(0, 0.0253), StepTime(3, 0.0203)]
    model = speed_model(OF_ALIKE, times, num_steps=3, requests=ALIKE, what_if=0.9)
    told = " / ".join(model.sentences)
    assert "to take 20.3 ms and plain decoding 25.3 ms a step, so whether speculation wins is not decided" in told
    assert "the step times contradict each other (noise, or another load" in told
    assert "no shares of a loss" in told
    assert not [word for word in ("%", "wins:", "needs", "would give") if word in told]
    assert (model.loss.acceptance_share, model.loss.overhead_share) == (None, None)
    shown = forecast(prediction_rows(model), baseline=1 / 0.0253, num_steps=3, measured=[3])
    assert "may pay or not" in shown
    assert "the step times contradict each other" in shown
    assert "needs" not in shown


def test_another_number_of_steps_that_cannot_be_so_fast_names_no_best() -> None:
    model = speed_model((0.8, 0.6, 0.5), [StepTime(0, 0.010), StepTime(1, 0.008), StepTime(3, 0.028)], num_steps=3)
    assert model.best is None
    assert model.sentences[-1].startswith("with num_steps 1 a verify step cannot be faster than a plain one")


def test_a_rate_alone() -> None:
    assert constant_acceptance(0.5, 1) == pytest.approx(0.5)
    assert survival_of_rate((0.8 + 0.64 + 0.512) / 3, 3) == pytest.approx((0.8, 0.64, 0.512))
    assert survival_of_rate(0.0, 2) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_intervals_come_from_requests_and_step_times() -> None:
    rows, survival = ALIKE, OF_ALIKE
    model = speed_model(survival, TIMES, num_steps=3, requests=rows)
    point = model.at(3)
    assert point.accept_length_ci95 is not None
    assert point.tokens_per_s_ci95 is not None
    low, high = point.accept_length_ci95
    assert low < 1 + sum(survival) < high
    assert point.tokens_per_s_ci95 == pytest.approx((low / 0.028, high / 0.028))
    unsure = [*TIMES[:2], StepTime(3, 0.028, ci95=(0.024, 0.032))]
    wider = speed_model(survival, unsure, num_steps=3, requests=rows).at(3).tokens_per_s_ci95
    assert wider is not None
    assert wider[1] - wider[0] > (high - low) / 0.028
    beyond = model.at(5).accept_length_ci95
    assert beyond is not None
    assert beyond[0] < model.at(5).accept_length < beyond[1]
    assert speed_model(survival, TIMES, num_steps=3).at(3).tokens_per_s_ci95 is None


@pytest.mark.parametrize(
    ("times", "survival"),
    [
        ([StepTime(3, 0.028)], (0.8, 0.6, 0.5)),
        ([StepTime(0, 0.010)], (0.8, 0.6, 0.5)),
        ([StepTime(0, 0.010), StepTime(3, 0.028, running=8)], (0.8, 0.6, 0.5)),
        ([*TIMES, StepTime(3, 0.029)], (0.8, 0.6, 0.5)),
        (TIMES, (0.5, 0.6)),
        (TIMES, ()),
        (TIMES, (1.2,)),
    ],
)
def test_figures_that_do_not_belong_together_are_refused(times: list[StepTime], survival: tuple[float, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        speed_model(survival, times, num_steps=3)
    assert caught.value.code == "WB-SPEED-INPUT"


def test_step_times_from_requests_and_from_a_log() -> None:
    step = measured_step(3, [0.28, 0.60, 0.27], [10, 20, 10])
    assert step.seconds == pytest.approx(1.15 / 40)
    assert step.ci95 is not None
    assert step.ci95[0] < step.seconds < step.ci95[1]
    with pytest.raises(UsageError, match="2 times and 1 requests"):
        measured_step(3, [0.28, 0.60], [10])
    rows = pd.DataFrame(
        [(2.5, 1, 100.0), (3.0, 1, 100.0), (2.0, 1, 4.0), (2.5, 4, 300.0)],
        columns=["accept_length", "running", "throughput"],
    )
    assert step_of_log(3, rows).seconds == pytest.approx(0.030)  # of 25, 30 and 500 ms
    assert step_of_log(3, rows, running=4).seconds == pytest.approx(4 * 2.5 / 300)
    with pytest.raises(UsageError, match="no log interval has 2"):
        step_of_log(3, rows, running=2)


def test_a_line_through_the_measured_steps() -> None:
    cost = step_cost([StepTime(0, 0.010), StepTime(1, 0.015), StepTime(2, 0.022), StepTime(3, 0.026)])
    assert cost.draft == pytest.approx(0.0055)
    assert cost.verify == pytest.approx(0.021 - 2 * 0.0055)
    assert cost.seconds(2) == pytest.approx(0.022)  # as it was measured
    assert cost.seconds(4) == pytest.approx(0.032)


def test_order_is_compared_only_where_intervals_are_apart() -> None:
    measured = {"a": (9.0, 8.0, 10.0), "b": (5.0, 4.0, 6.0), "c": (5.5, 4.5, 6.5)}
    assert order_contradictions({"a": 3.0, "b": 2.0, "c": 1.0}, measured) == []
    assert order_contradictions({"a": 1.0, "b": 2.0, "c": 0.5}, measured) == [("b", "a")]


def measured(name: str, steps: int, seconds: float | None, survival: list[float] | None = None) -> Measurement:
    return Measurement(
        name=name,
        dtype="float32",
        aux_layer_ids=None,
        boundaries=None,
        requests=8,
        tokens_per_s=1.0,
        greedy_equal=True,
        first_difference=None,
        survival=survival if steps else None,
        step_s=seconds,
    )


def test_the_model_from_measurements() -> None:
    base, one = measured("plain", 0, 0.010), measured("one", 1, 0.016, [0.8])
    three = measured("three", 3, 0.028, [0.8, 0.6, 0.5])
    model = model_of(three, base, others=[one])
    assert model == speed_model((0.8, 0.6, 0.5), TIMES, num_steps=3)
    with pytest.raises(UsageError, match="has survival None"):
        model_of(base, three)
    with pytest.raises(UsageError, match="no step time"):
        model_of(three, measured("plain", 0, None))


def test_a_sweep_is_predicted_from_its_other_points() -> None:
    """Step times on one line and one survival: each point is predicted exactly, the longest but for its last draft."""
    whole = [0.8, 0.64, 0.512, 0.4096]  # .8 each time, so the continuation is right too
    plain = {"profile": "baseline", "batch_size": 1}
    rows = [Row(point="base", status="done", baseline=True, axes=plain, measurement=measured("base", 0, 0.010))]
    for k in (1, 2, 3, 4):
        axes = {"profile": "right", "num_steps": k, "topk": 1, "ids": [1, 4, 8], "batch_size": 1}
        seconds = 0.010 + 0.006 * k
        found = measured(f"right-{k}", k, seconds, whole[:k])
        found = found.model_copy(update={"step_s_ci95": (seconds - 0.001, seconds + 0.001)})
        rows.append(Row(point=f"right-{k}", status="done", axes=axes, measurement=found))
    rows.append(Row(point="failed", status="failed", axes={**plain, "num_steps": 5, "topk": 1}))
    table = held_out(sweep_frame(rows))
    assert list(table["point"]) == ["right-1", "right-2", "right-3", "right-4"]
    assert set(table["curve"]) == {"right"}
    assert list(table["predicted"]) == pytest.approx(list(table["measured"]))
    assert list(table["measured"]) == pytest.approx([(1 + sum(whole[:k])) / (0.010 + 0.006 * k) for k in (1, 2, 3, 4)])
    assert table.loc[0, "low"] == pytest.approx(1.8 / 0.017)
    spans = {row["point"]: (row["measured"], row["low"], row["high"]) for row in table.to_dict("records")}
    assert order_contradictions(dict(zip(table["point"], table["predicted"], strict=True)), spans) == []
    assert held_out(sweep_frame(rows[:3])).empty


def test_means_of_requests_in_flight_that_differ_by_rounding_are_equal_batches() -> None:
    """As two loads of one request at a time are measured."""
    times = [StepTime(0, 0.010, running=0.99999999983), StepTime(3, 0.028, running=1.0000000026)]
    assert step_cost(times).seconds(3) == pytest.approx(0.028)
