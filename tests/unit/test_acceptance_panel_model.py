"""Configurations side by side, without a browser."""

from __future__ import annotations

import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.errors import UsageError
from helpers.panels.acceptance_model import AcceptanceModel
from helpers.serving import load_profiles

COMMON = {"dtype": "float32", "requests": 32, "greedy_equal": True, "first_difference": None}
ROWS = [
    Measurement(
        name="baseline", aux_layer_ids=None, boundaries=None, tokens_per_s=70.0, run="baseline-x-0001", **COMMON
    ),
    Measurement(
        name="right",
        aux_layer_ids=[1, 4, 8],
        boundaries=[2, 5, 9],
        accept_length=2.8,
        accept_rate=0.6,
        ci95=(0.55, 0.65),
        survival=[0.8, 0.6, 0.4],
        survival_ci95=[(0.75, 0.85), (0.55, 0.65), (0.35, 0.45)],
        verify_steps=700,
        tokens_per_s=120.0,
        **COMMON,
    ),
    Measurement(
        name="miswired",
        aux_layer_ids=[-1, 1, 4],
        boundaries=[0, 2, 5],
        accept_length=1.65,
        accept_rate=0.217,
        ci95=(0.19, 0.24),
        survival=[0.4, 0.2, 0.05],
        survival_ci95=[(0.35, 0.45), (0.15, 0.25), (0.03, 0.07)],
        verify_steps=1100,
        tokens_per_s=60.0,
        **{**COMMON, "greedy_equal": False, "first_difference": ("p3", 17)},
    ),
]


def row(model: AcceptanceModel, field: str) -> list[str]:
    return list(next(line for line in model.table() if line[""] == field).values())[1:]


def test_deltas_are_against_the_pinned_baseline() -> None:
    model = AcceptanceModel(ROWS)
    model.baseline = "right"
    assert list(model.table()[0]) == ["", "right (pinned)", "baseline", "miswired"]
    assert row(model, "accept rate") == ["0.600 [0.550, 0.650]", "-", "0.217 (-0.383) [0.190, 0.240]"]
    assert row(model, "accept length") == ["2.80", "-", "1.65 (-1.15)"]
    assert row(model, "survival S(3)") == ["0.400", "-", "0.050 (-0.350)"]
    assert row(model, "tokens/s") == ["120.0", "70.0 (0.58 x)", "60.0 (0.50 x)"]
    assert row(model, "verify steps (n)") == ["700", "-", "1100"]
    assert row(model, "greedy text")[2] == "not as without speculation, from p3, token 17"


def test_differences_only_leaves_out_what_is_the_same() -> None:
    model = AcceptanceModel({r.name: r for r in ROWS}, profiles=load_profiles())
    everything = [line[""] for line in model.table()]
    model.differences_only = True
    kept = [line[""] for line in model.table()]
    assert {"dtype", "requests", "engine", "tp", "extra_args"} <= set(everything) - set(kept)
    assert {"aux_layer_ids", "patches", "accept rate"} <= set(kept)
    assert f"{len(everything) - len(kept)} rows are left out" in model.hidden_words()
    model.shown = ("baseline",)
    assert model.table() == []


def test_equal_numbers_count_as_the_same() -> None:
    twin = ROWS[1].model_copy(update={"name": "mended"})
    model = AcceptanceModel([ROWS[1], twin])
    model.differences_only = True
    assert [line[""] for line in model.table()] == []


def test_search_finds_fields_and_values() -> None:
    model = AcceptanceModel(ROWS)
    model.search = "surv"
    assert [line[""] for line in model.table()] == ["survival S(1)", "survival S(2)", "survival S(3)"]


def test_a_profiles_secrets_are_not_shown() -> None:
    profile = load_profiles()["right"]
    secret = profile.model_copy(update={"extra_args": ("--api-key", "hunter2"), "env": {"HF_TOKEN": "hunter2"}})
    model = AcceptanceModel(ROWS, profiles={"right": secret})
    assert "hunter2" not in str(model.table())
    assert row(model, "extra_args")[1] == "--api-key ***"


@pytest.mark.parametrize(
    ("baseline", "shown", "told"),
    [("right", "-0.130 [-0.200, -0.080]", "below"), ("off", "+0.130 [+0.080, +0.200]", "above")],
)
def test_paired_comparisons_turn_with_the_baseline(baseline: str, shown: str, told: str) -> None:
    off = ROWS[1].model_copy(update={"name": "off"})
    pair = PairedDifference(first="right", second="off", difference=0.13, ci95=(0.08, 0.2), requests=32)
    model = AcceptanceModel([ROWS[1], off], comparisons=[pair])
    model.baseline = baseline
    (line,) = model.paired_rows()
    assert (line["accept rate minus the pinned one's"], line["that is"], line["requests (n)"]) == (shown, told, "32")


def test_another_one_can_be_pinned_from_the_start() -> None:
    model = AcceptanceModel(ROWS, pinned="right")
    assert list(model.table()[0])[1] == "right (pinned)"
    with pytest.raises(UsageError, match="WB-BASELINE-MISSING"):
        AcceptanceModel(ROWS, pinned="rihgt")


def test_static_has_table_limits_and_both_figures() -> None:
    static = AcceptanceModel(ROWS).static()
    assert len(static.figures) == 2
    assert "paired comparison" in static.text
    assert "0.217 (-" not in static.text  # the pinned one has no accept rate: no delta is made up
    assert AcceptanceModel(ROWS[:1]).figures() == []


def test_the_shown_call_runs_as_it_stands() -> None:
    model = AcceptanceModel(ROWS)
    model.shown = ("baseline", "right")
    scope: dict[str, object] = {"measurements": ROWS}
    exec(model.call(), scope)
    assert [r.name for r in scope["rows"]] == ["baseline", "right"]  # type: ignore[attr-defined]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AcceptanceModel([])
