"""The break-even over starts, by numbers worked by hand: a start a ratio, honest n, and one start has no interval."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.acceptance.breaking_even import BreakEven, Pass, break_even_of, over_starts, pass_of
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.speed_check import model_of
from helpers.acceptance.speed_words import paying
from helpers.acceptance.sweep_results import Sweep, sweep_text
from helpers.acceptance.sweep_rounds import Rounds, rounds_text
from helpers.acceptance.sweep_state import Row
from helpers.acceptance.tables import prediction_rows
from helpers.acceptance.versus import SpeedRatio, Versus

SURVIVAL = [0.8, 0.6, 0.5]


def passes(*seconds: float | None, runs: str) -> tuple[Pass, ...]:
    """A pass a step time, each answered by the run of that letter."""
    return tuple(
        Pass(step_s=took, decode_steps=100, runs=(name,)) for took, name in zip(seconds, runs.split(), strict=True)
    )


def test_students_interval_over_three_starts() -> None:
    """Ratios 2, 2.5 and 3.125: the logarithms step by ln 1.25, so their standard error is ln 1.25 / sqrt(3)."""
    found = break_even_of(passes(0.02, 0.025, 0.03125, runs="a b c"), passes(0.01, 0.01, 0.01, runs="x y z"))
    assert found is not None
    assert (found.starts, found.by_start) == (3, pytest.approx((2.0, 2.5, 3.125)))
    assert found.accept_length == pytest.approx(2.5)
    half = 4.303 * math.log(1.25) / math.sqrt(3)
    assert found.ci95 == pytest.approx((2.5 * math.exp(-half), 2.5 * math.exp(half)))
    assert str(found) == "2.50 [1.44, 4.35] (95% over 3 starts)"
    assert [found.against(length) for length in (1.4, 2.0, 4.4)] == ["below", "within", "above"]


def test_what_makes_a_whole_start_slow_is_in_none_of_it() -> None:
    found = break_even_of(passes(0.02, 0.06, runs="a b"), passes(0.01, 0.03, runs="x y"))
    assert found is not None
    assert (found.accept_length, found.ci95) == (pytest.approx(2.0), pytest.approx((2.0, 2.0)))


def test_one_start_has_no_interval() -> None:
    one = over_starts([2.8])
    assert one is not None
    assert (one.starts, one.ci95) == (1, None)
    assert str(one) == "2.80 (one start, so no interval)"
    assert over_starts([]) is None


def test_a_server_that_is_asked_again_is_one_start() -> None:
    """Also where only one side was started anew: its ratios have the other side's start in common."""
    asked = break_even_of(passes(0.02, 0.03, runs="a a"), passes(0.01, 0.01, runs="x x"))
    assert asked is not None
    assert (asked.starts, asked.accept_length, asked.ci95) == (1, pytest.approx(2.5), None)
    half = break_even_of(passes(0.02, 0.03, runs="a b"), passes(0.01, 0.01, runs="x x"))
    assert half == asked
    later = break_even_of(passes(0.02, 0.03, 0.04, runs="a b a"), passes(0.01, 0.01, 0.01, runs="x y z"))
    assert later is not None
    assert (later.starts, sorted(later.by_start)) == (2, pytest.approx([3.0, 3.0]))


def test_a_pass_that_lacks_something_is_no_start() -> None:
    found = break_even_of(passes(0.02, None, 0.02, runs="a b c"), passes(0.01, 0.01, None, runs="x y z"))
    assert found is not None
    assert found.starts == 1
    assert break_even_of(passes(0.02, runs="a"), ()) is None
    nameless = (Pass(step_s=0.02, decode_steps=5, runs=()),)
    assert break_even_of(nameless, passes(0.01, runs="x")) is None


def test_a_load_as_a_pass() -> None:
    """Two answers, each two tokens after the first in 0.2 s: two steps each, or one verify step each of two tokens."""
    plain = Answer("p", (1, 2, 3), None, 1.0, arrivals=((0.5, 1), (0.7, 3)))
    fast = replace(plain, counters=RequestCounters((0, 1), 1))
    two = pass_of(Load((plain, plain), 3), ["r", "r"], speculates=False)
    assert (two.step_s, two.decode_steps, two.runs) == (pytest.approx(0.1), 4, ("r",))
    assert pass_of(Load((fast, fast), 3), ["r"], speculates=True).step_s == pytest.approx(0.2)
    assert pass_of(Load((plain,), 3), ["r"], speculates=True).step_s is None
    assert pass_of(Load((plain,), 3, asked=2), ["r"], speculates=False).step_s is None
    assert pass_of(Load((replace(plain, arrivals=()),), 3), ["r"], speculates=False).step_s is None


def served(name: str, steps: int, *seconds: float, runs: str) -> Measurement:
    """A measurement whose passes took so long a step."""
    acceptance = {
        "survival": SURVIVAL,
        "survival_ci95": [(s - 0.1, s + 0.1) for s in SURVIVAL],
        "histogram": [200, 200, 100, 500],
        "verify_steps": 1000,
        "accept_length": 2.9,
        "accept_rate": 1.9 / 3,
        "ci95": (0.6, 0.66),
    }
    return Measurement(
        name=name,
        dtype="float32",
        aux_layer_ids=None,
        boundaries=None,
        requests=8,
        tokens_per_s=100.0,
        greedy_equal=True,
        first_difference=None,
        step_s=sum(seconds) / len(seconds),
        by_pass=passes(*seconds, runs=runs),
        run=runs.replace(" ", ", "),
        passes=len(seconds),
        **(acceptance if steps else {}),
    )


def test_the_advice_says_the_interval_and_its_n() -> None:
    """Accept length 2.9 over step times 24, 25 and 26 ms against 10: above the interval, so it wins."""
    base = served("plain", 0, 0.010, 0.010, 0.010, runs="x y z")
    model = model_of(served("three", 3, 0.024, 0.025, 0.026, runs="a b c"), base)
    over = model.at(3).over_starts
    assert over is not None
    assert (model.starts, over.starts, model.at(3).break_even) == (3, 3, over.accept_length)
    assert f"needs an accept length of {over.cell} (95% over 3 starts) to equal" in model.sentences[0]
    assert "it has 2.90 and wins" in model.sentences[0]
    assert not any("one start" in line for line in model.sentences)
    table = prediction_rows(model).set_index("num_steps")
    assert table.loc[3, ["break_even_low", "break_even_high"]].tolist() == pytest.approx(list(over.bounds))
    assert table.loc[3, "starts"] == 3
    assert table.loc[2, ["break_even_low", "break_even_high", "starts"]].isna().all(), "it was not measured"


def test_starts_that_do_not_tell_are_said_to() -> None:
    base = served("plain", 0, 0.010, 0.010, 0.010, runs="x y z")
    told = model_of(served("three", 3, 0.020, 0.025, 0.030, runs="a b c"), base).sentences[0]
    assert "it has 2.90 and whether it wins is not decided by these measurements" in told
    slow = model_of(served("three", 3, 0.034, 0.035, 0.036, runs="a b c"), base).sentences[0]
    assert "it has 2.90 and loses" in slow
    never = model_of(served("three", 3, 0.054, 0.055, 0.056, runs="a b c"), base).sentences[0]
    assert "cannot reach that whatever is accepted (at most 4)" in never


def test_the_advice_of_one_start_says_that_it_is_one() -> None:
    model = model_of(served("three", 3, 0.025, runs="a"), served("plain", 0, 0.010, runs="x"))
    assert "needs an accept length of 2.50 to equal" in model.sentences[0]
    assert model.sentences[1].startswith("one start: the break-even has no interval")
    table = prediction_rows(model).set_index("num_steps")
    assert table.loc[3, "starts"] == 1
    assert math.isnan(table.loc[3, "break_even_low"])


def test_a_break_even_below_one_says_that_it_cannot_be(tmp_path: Path) -> None:
    """Starts that only differ about it, some below 1 and some above, say nothing that cannot be."""
    one, three, apart = over_starts([0.8]), over_starts([0.8, 0.81, 0.8]), over_starts([0.8, 1.0, 1.2])
    assert one is not None
    assert three is not None
    assert apart is not None
    assert (one.contradicts, three.contradicts, apart.contradicts) == (True, True, False)
    assert "below 1: a verify step cannot be faster than a plain one" in str(one)
    told = "\n".join(paying([("a", 2.9, three), ("b", 2.9, over_starts([2.0, 2.0]) or three)]))
    assert "speculation pays at b\n" in told
    assert "break-even of a below 1: a verify step cannot be" in told
    assert "break-even of steps3 below 1: " in sweep_text(rounds(tmp_path, 0.8).sweeps[0])


def test_two_passes_of_one_start_are_one_start_in_the_advice() -> None:
    model = model_of(served("three", 3, 0.025, 0.026, runs="a a"), served("plain", 0, 0.01, 0.01, runs="x y"))
    assert (model.starts, model.at(3).over_starts) == (1, None)
    assert any(line.startswith("one start: ") for line in model.sentences)


def point(ratio: float) -> Row:
    """A round's point of three draft steps, accept length 2.9, whose verify step takes so many plain steps."""
    axes = {"profile": "right", "ids": None, "num_steps": 3, "topk": 1, "batch_size": 1}
    versus = Versus(
        candidate="steps3",
        baseline="plain",
        speed=None,
        greedy_equal=None,
        compared=0,
        differing=0,
        first=None,
        accept_rate=None,
        break_even=over_starts([ratio]),
    )
    found = served("steps3", 3, 0.01 * ratio, runs="a")
    return Row(point="steps3", status="done", axes=axes, measurement=found, versus=versus)


def rounds(tmp_path: Path, *ratios: float) -> Rounds:
    """A round a ratio."""
    return Rounds(tmp_path, tuple(Sweep(tmp_path, (point(ratio),), ()) for ratio in ratios))


def test_rounds_of_a_sweep_are_its_starts(tmp_path: Path) -> None:
    found = rounds(tmp_path, 2.5, 2.55, 2.6)
    needed = found.break_evens["steps3"]
    assert needed.starts == 3
    told = json.loads(json.dumps(found.record()))["break_even"]["steps3"]
    assert BreakEven.model_validate(told) == needed
    text = rounds_text(found)
    assert f" 2.90  {needed.cell} " in text
    assert "against the break-even's interval over starts: speculation pays at steps3" in text
    wide = rounds_text(rounds(tmp_path, 2.5, 3.0))
    assert "speculation is not told apart from plain decoding at steps3" in wide
    assert "speculation does not pay at steps3" in rounds_text(rounds(tmp_path, 3.5, 3.5))


def test_one_round_says_that_it_is_one_start(tmp_path: Path) -> None:
    found = rounds(tmp_path, 2.5)
    assert found.record()["break_even"]["steps3"]["ci95"] is None
    assert "break-even of steps3: one start, so no interval" in rounds_text(found)
    [sweep] = found.sweeps
    assert "break-even: one start, so no interval (--rounds N starts each point N times)" in sweep_text(sweep)
    assert sweep.record()["rows"][0]["versus"]["break_even"]["starts"] == 1
    assert paying([]) == []


def test_a_sweep_says_what_its_speeds_are_over(tmp_path: Path) -> None:
    [sweep] = rounds(tmp_path, 2.5).sweeps
    assert "over prompts only" not in sweep_text(sweep)  # no speed against a baseline is told
    ratio = SpeedRatio(ratio=0.4, ci95=(0.25, 0.52), pairs=1, prompts=3)
    rows = tuple(
        row if row.versus is None else row.model_copy(update={"versus": row.versus.model_copy(update={"speed": ratio})})
        for row in sweep.rows
    )
    assert "x baseline: one start a point, so the interval is over prompts only" in sweep_text(
        replace(sweep, rows=rows)
    )
    assert paying([]) == []
