"""Tables and figures of acceptance: what goes in comes out, deltas against the pinned row, the break-even in its place.

.venv/bin/python -m pytest tests/unit/test_acceptance_tables.py
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.positions import TextStep, position_rows, steps_of_stream
from helpers.acceptance.prediction import speed_model
from helpers.acceptance.sources import Counters, Size
from helpers.acceptance.speed import StepTime
from helpers.acceptance.tables import (
    comparison,
    counters_rows,
    differences,
    length_rows,
    prediction_rows,
    prompt_rows,
    survival_rows,
)
from helpers.errors import UsageError
from helpers.figures import acceptance, acceptance_curves, acceptance_speed

CAPTION = "lab, run right-1, capture sha256 1f3a"


def row(name: str, rate: float | None, speed: float, steps: int = 3) -> Measurement:
    spec: dict[str, Any] = {}
    if rate is not None:
        spec = {
            "accept_length": 1 + steps * rate,
            "accept_rate": rate,
            "ci95": (rate - 0.05, rate + 0.05),
            "survival": [rate] * steps,
            "survival_ci95": [(rate - 0.1, rate + 0.1)] * steps,
            "histogram": [1] * (steps + 1),
            "verify_steps": 100,
        }
    return Measurement(
        name=name,
        dtype="float32",
        aux_layer_ids=None,
        boundaries=None,
        requests=8,
        tokens_per_s=speed,
        greedy_equal=True,
        first_difference=None,
        **spec,
    )


def names_of(figure: go.Figure) -> list[str]:
    return [trace.name for trace in figure.data if trace.showlegend is not False]


def test_the_baseline_is_pinned_and_the_rest_are_deltas() -> None:
    rows = [row("miswired", 0.2, 60.0), row("right", 0.5, 100.0), row("plain", None, 80.0)]
    table = comparison(rows, baseline="right")
    assert list(table.index) == ["right", "miswired", "plain"]
    assert table.loc["miswired", "accept_rate_delta"] == pytest.approx(-0.3)
    assert table.loc["miswired", "accept_length_delta"] == pytest.approx(-0.9)
    assert table.loc["plain", "speed_ratio"] == pytest.approx(0.8)
    assert math.isnan(table.loc["plain", "accept_rate_delta"])
    assert table.loc["right", "speed_ratio"] == 1.0
    with pytest.raises(UsageError, match="no row 'base'"):
        comparison(rows, baseline="base")


def test_only_settings_that_differ_become_columns() -> None:
    configs = {
        "right": {"name": "right", "tp": 8, "aux_layer_ids": (2, 30, 58), "speculation": {"num_steps": 3, "topk": 1}},
        "miswired": {"name": "miswired", "tp": 8, "aux_layer_ids": (-1, 2, 30), "speculation": {"num_steps": 3}},
        "plain": {"name": "plain", "tp": 8, "speculation": None},
    }
    assert set(differences(configs)) == {"aux_layer_ids", "speculation.num_steps", "speculation.topk"}
    both = {name: configs[name] for name in ("right", "miswired")}
    table = comparison([row("right", 0.5, 1.0), row("miswired", 0.2, 1.0)], baseline="right", configs=both)
    assert list(table["aux_layer_ids"]) == [[2, 30, 58], [-1, 2, 30]]
    assert "tp" not in table
    assert "speculation.num_steps" not in table
    assert list(table["speculation.topk"]) == [1, None]


def test_length_against_steps() -> None:
    table = length_rows([("right", row("right-2", 0.6, 1.0, steps=2)), ("right", row("right-1", 0.7, 1.0, steps=1))])
    assert list(table["num_steps"]) == [1, 2]
    assert list(table["accept_length"]) == pytest.approx([1.7, 2.2])
    assert list(table["high"]) == pytest.approx([1.75, 2.3])
    figure = acceptance_curves.accept_length_by_steps(table, caption=CAPTION)
    assert names_of(figure) == ["all drafts accepted", "right"]
    assert list(figure.data[0].y) == [2, 3]
    assert list(figure.data[-1].y) == pytest.approx([1.7, 2.2])


def test_survival_has_a_band_for_each_configuration() -> None:
    table = survival_rows([row("right", 0.5, 1.0), row("miswired", 0.2, 1.0)])
    figure = acceptance.survival(table, caption=CAPTION)
    assert names_of(figure) == ["right", "miswired"]
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert [band.legendgroup for band in bands] == ["right", "miswired"]
    assert list(bands[0].y) == pytest.approx([0.6] * 3 + [0.4] * 3)
    assert figure.layout.annotations[0].text == CAPTION


def test_steps_of_a_stream_and_their_positions() -> None:
    first = steps_of_stream("a", [1, 5, 7, 11], verify_steps=3)
    assert first == [TextStep("a", 1, 4), TextStep("a", 5, 2), TextStep("a", 7, 4)]
    second = steps_of_stream("b", [1, 2, 6], verify_steps=2)
    table = position_rows({"right": [*first, *second]}, width=4)
    assert list(table["position"]) == [2.0, 6.0]
    assert list(table["steps"]) == [3, 2]
    assert list(table["accept_length"]) == pytest.approx([(4 + 1 + 4) / 3, (2 + 4) / 2])
    figure = acceptance_curves.over_position(table, caption=CAPTION)
    assert list(figure.data[-1].x) == [2.0, 6.0]


def test_joined_chunks_are_refused() -> None:
    for chunks, steps in (([1, 9], 2), ([1], 0), ([1, 5, 4], 2)):
        with pytest.raises(UsageError) as caught:
            steps_of_stream("a", chunks, verify_steps=steps)
        assert caught.value.code == "WB-STREAM-JOINED"


def test_prompts_that_both_answered_are_compared() -> None:
    one = {"a": RequestCounters((2, 2), 4), "b": RequestCounters((1, 0), 1), "c": RequestCounters((1, 0), 1)}
    two = {"a": RequestCounters((0, 4), 4), "b": RequestCounters((1, 0), 1), "d": RequestCounters((1, 0), 1)}
    table = prompt_rows(one, two)
    assert table.to_dict("records") == [
        {"prompt": "a", "first": 1.5, "second": 2.0, "steps": 4},
        {"prompt": "b", "first": 1.0, "second": 1.0, "steps": 1},
    ]
    figure = acceptance_curves.prompt_scatter(table, first="miswired", second="right", caption=CAPTION)
    assert figure.layout.title.text == "Accept length by prompt: right above miswired in 1 of 2"


def test_the_break_even_stands_where_the_line_crosses_the_baseline() -> None:
    points = pd.DataFrame(
        [("right", 3, 2.9, 103.0, 99.0, 107.0), ("miswired", 1, 1.2, 75.0, 70.0, 80.0)],
        columns=["profile", "num_steps", "accept_length", "tokens_per_s", "low", "high"],
    )
    seconds = {1: 0.016, 3: 0.028, 4: 0.060}
    figure = acceptance_speed.throughput_by_acceptance(points, baseline=100.0, step_seconds=seconds, caption=CAPTION)
    marks = [trace.x[0] for trace in figure.data if trace.marker.symbol == "line-ns-open"]
    assert marks == pytest.approx([1.6, 2.8])  # with 4 steps 6.0 would be needed, of 5
    assert "4 steps, 60.0 ms (cannot reach it)" in names_of(figure)
    assert "3 steps, 28.0 ms (needs 2.80)" in names_of(figure)
    line = next(trace for trace in figure.data if trace.name and trace.name.startswith("3 steps"))
    assert list(line.y) == pytest.approx([1 / 0.028, 4 / 0.028])


def test_predictions_show_what_was_extrapolated() -> None:
    times = [StepTime(0, 0.010), StepTime(1, 0.016), StepTime(3, 0.028)]
    table = prediction_rows(speed_model((0.8, 0.6, 0.5), times, num_steps=3, max_steps=4))
    assert list(table["basis"]) == ["survival measured"] * 3 + ["survival extrapolated"]
    last = table.iloc[-1]
    assert (last["low"], last["high"]) == pytest.approx((2.9 / 0.034, 3.4 / 0.034))
    measured = pd.DataFrame([(3, 101.0, 97.0, 105.0)], columns=["num_steps", "tokens_per_s", "low", "high"])
    figure = acceptance_speed.predicted(table, baseline=100.0, caption=CAPTION, measured=measured)
    assert [name.split("<br>")[0] for name in names_of(figure)] == [
        "no speculation, 100 tok/s",
        "predicted:",
        "predicted:",
        "measured",
    ]


def test_one_run_from_several_sources() -> None:
    def found(length: float | None, steps: int | None) -> Counters:
        size = Size(verify_steps=steps, lines=3)
        return Counters(
            accept_length=length, accept_rate=None, survival=None, n=size, source="s", definition="d", warnings=[]
        )

    table = counters_rows({"answers": found(2.5, 10), "log": found(None, None)})
    assert list(table.index) == ["answers", "log"]
    assert table.loc["answers", "accept_length"] == 2.5
    assert math.isnan(table.loc["log", "accept_length"])
    assert table.loc["log", "verify_steps"] is pd.NA


def test_servers_over_time() -> None:
    rows = [
        ("2026-11-30 05:43:02", "DP0 TP0", 2.0, 1),
        ("2026-11-30 05:43:01", "DP0 TP0", 1.5, 2),
        ("2026-11-30T05:43:03.250", "DP1 TP0", 3.0, None),
    ]
    table = pd.DataFrame(rows, columns=["time", "server", "accept_length", "running"])
    figure = acceptance_curves.over_time(table, caption=CAPTION)
    assert names_of(figure) == ["DP0 TP0", "DP1 TP0"]
    assert list(figure.data[0].y) == [1.5, 2.0]
    assert "(from 2026-11-30 05:43:01)" in figure.layout.xaxis.title.text
