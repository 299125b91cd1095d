"""Verdicts on acceptance, by hand-made intervals: what is not decided is not refuted, few requests decide nothing."""

from __future__ import annotations

import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.figures import remarks
from helpers.ledger.judging import judge_fix, judge_gain, judge_shortfall


def served(low: float, high: float, *, requests: int = 16, dtype: str = "float32") -> Measurement:
    return Measurement(
        name="mended",
        dtype=dtype,
        aux_layer_ids=[1, 4, 8],
        boundaries=None,
        accept_rate=(low + high) / 2,
        ci95=(low, high),
        verify_steps=400,
        requests=requests,
        tokens_per_s=50.0,
        greedy_equal=None,
        first_difference=None,
    )


def gained(low: float, high: float, requests: int = 16) -> PairedDifference:
    middle = (low + high) / 2
    return PairedDifference(first="mended", second="old", difference=middle, ci95=(low, high), requests=requests)


@pytest.mark.parametrize(
    ("gain", "rate", "dtype", "equal", "outcome", "reason"),
    [
        (gained(0.03, 0.25), (0.48, 0.55), "float32", True, "confirmed", ""),
        (gained(0.03, 0.253, 2), (0.48, 0.55), "float32", True, "inconclusive", "2 is too few prompts"),
        (gained(-0.2, -0.1, 7), (0.1, 0.2), "float32", False, "inconclusive", "7 is too few prompts"),
        (gained(0.03, 0.25, 8), (0.48, 0.55), "bfloat16", True, "confirmed", ""),
        (gained(-0.02, 0.25), (0.48, 0.55), "float32", True, "inconclusive", "the difference holds 0"),
        (gained(-0.2, -0.1), (0.48, 0.55), "float32", True, "refuted", "the difference is below 0"),
        (gained(0.03, 0.25), (0.30, 0.40), "float32", True, "refuted", "does not reach 51%"),
        (gained(0.03, 0.25), (0.48, 0.55), "bfloat16", False, "inconclusive", "differs (dtype bfloat16): outside"),
        (gained(0.03, 0.25), (0.48, 0.55), "auto", False, "inconclusive", "differs (dtype auto): outside"),
        (gained(0.03, 0.25), (0.48, 0.55), "float32", False, "refuted", "greedy text differs"),
        (gained(0.03, 0.25), (0.48, 0.55), "float32", None, "inconclusive", "no greedy text was compared"),
        (gained(-0.02, 0.25), (0.30, 0.40), "bfloat16", False, "refuted", "does not reach 51%"),
    ],
)
def test_the_fix(
    gain: PairedDifference, rate: tuple[float, float], dtype: str, equal: bool | None, outcome: str, reason: str
) -> None:
    found = judge_fix(gain, served(*rate, dtype=dtype), promised=0.51, equal_text=equal)
    assert found.outcome == outcome
    assert reason in found.reason
    assert bool(found.reason) == (outcome != "confirmed")
    assert found.supports is {"confirmed": True, "refuted": False, "inconclusive": None}[outcome]


@pytest.mark.parametrize(
    ("low", "high", "requests", "outcome"),
    [
        (0.2, 0.3, 16, "confirmed"),
        (0.2, 0.3, 7, "inconclusive"),
        (0.4, 0.6, 16, "inconclusive"),
        (0.51, 0.6, 16, "refuted"),
        (0.6, 0.7, 2, "inconclusive"),
    ],
)
def test_the_symptom(low: float, high: float, requests: int, outcome: str) -> None:
    assert judge_shortfall(served(low, high, requests=requests), 0.51).outcome == outcome


def test_without_an_interval_nothing_is_decided() -> None:
    assert judge_gain(None, 16).reason == "the difference has no interval"
    none = served(0.2, 0.3).model_copy(update={"ci95": None})
    assert judge_shortfall(none, 0.51).outcome == "inconclusive"
    assert judge_fix(gained(0.1, 0.2), none, promised=0.51, equal_text=True).outcome == "inconclusive"


def test_texts_of_shared_batches_refute_nothing() -> None:
    shared = served(0.48, 0.55).model_copy(update={"concurrency": 4})
    found = judge_fix(gained(0.03, 0.25), shared, promised=0.51, equal_text=False)
    assert (found.outcome, "shared batches" in found.reason) == ("inconclusive", True)


def test_the_reason_has_the_figures_first() -> None:
    few = judge_gain((0.03, 0.25), 2)
    assert few.because("+17.8 points") == "+17.8 points; 2 is too few requests for a verdict, which takes at least 8"
    assert judge_gain((0.03, 0.25), 16).because("+17.8 points") == "+17.8 points"


def test_the_outcome_says_when_nothing_is_decided() -> None:
    rates = {"mended": "51%", "old": "21%"}
    assert remarks.outcome(rates, won=None, equal_text=True).startswith("whether acceptance came back is not decided: ")
    assert "no text was compared" in remarks.outcome(rates, won=None, equal_text=None)
