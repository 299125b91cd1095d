"""The report's words follow from its figures."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.ledger import story


def row(
    name: str,
    rate: float | None = None,
    speed: float = 80,
    equal: bool = True,
    ids: tuple[int, ...] = (1, 4, 8),
    dtype: str = "float32",
) -> Measurement:
    return Measurement(
        name=name,
        dtype=dtype,
        aux_layer_ids=None if rate is None else list(ids),
        boundaries=None if rate is None else [i + 1 for i in ids],
        accept_rate=rate,
        ci95=None if rate is None else (rate - 0.05, rate + 0.05),
        verify_steps=None if rate is None else 700,
        requests=32,
        tokens_per_s=speed,
        greedy_equal=equal,
        first_difference=None if equal else ("p3", 7),
    )


def diagnosis(served: list[int | None], codes: tuple[str, ...] = ("slot-wrong",)) -> dict[str, Any]:
    pairs = enumerate(zip([2, 5, 9], served, strict=True))
    return {
        "aligned_tokens": 500,
        "findings": [{"code": c, "severity": "error", "slot": None, "summary": "..."} for c in codes],
        "slots": [
            {"slot": k, "trained": {"boundary": t, "score": 0.99}, "served": {"boundary": s, "score": 1.0}}
            for k, (t, s) in pairs
        ],
    }


def test_what_was_not_decided_is_listed_with_its_reason() -> None:
    left = {"verdict": "mismatch", "undecided": [{"code": "fc-order", "why": "W"}]}
    told = story.findings(diagnosis([0, 2, 5]) | left)
    assert "* `slot-wrong` (error): ..." in told
    assert "* `fc-order` (not decided): W" in told


def pair(first: str, second: str, low: float, high: float) -> PairedDifference:
    return PairedDifference(first=first, second=second, difference=(low + high) / 2, ci95=(low, high), requests=32)


def lines(rows: dict[str, Measurement] | None = None, off: PairedDifference | None = None) -> list[str]:
    usual = {
        "baseline": row("baseline", speed=84),
        "right": row("right", 0.6),
        "miswired": row("miswired", 0.2, 50, ids=(-1, 1, 4)),
        "off-by-one": row("off-by-one", 0.47, ids=(0, 3, 7)),
        "mended": row("mended", 0.6),
    }
    return story.summary(
        {**usual, **(rows or {})},
        diagnosis([0, 2, 5]),
        off or pair("right", "off-by-one", 0.08, 0.17),
        pair("mended", "right", 0.0, 0.0),
        diagnosis([1, 4, 8], ("slot-offset",)),
    )


def test_the_cause_names_every_slot_and_the_lost_tap_and_blames_none_alone() -> None:
    text = story.cause(diagnosis([0, 2, 5]))
    assert "slot 0 is fed the embedding output (boundary 0) where training had boundary 2" in text
    assert "slot 2 is fed boundary 5 where training had boundary 9" in text
    assert "Boundary 9 reaches no slot" in text
    assert "not measured" in text


def test_no_cause_is_claimed_where_features_match() -> None:
    assert "lies elsewhere" in story.cause(diagnosis([2, 5, 9], ("features-match",)))


@pytest.mark.parametrize(
    "unknown",
    [
        diagnosis([None, None, None], ("slot-unmatched",)),
        {**diagnosis([2, 5, 9], ("tokens-differ",)), "slots": []},
        {**diagnosis([2, 5, 9], ()), "slots": []},
    ],
)
def test_nothing_is_called_good_that_is_not_known(unknown: dict[str, Any]) -> None:
    text = story.cause(unknown)
    assert "those of training" not in text
    assert "No slot could be shown" in text


def test_no_tap_is_called_lost_while_a_slot_is_unknown() -> None:
    text = story.cause(diagnosis([0, 2, None]))
    assert "reaches no slot" not in text
    assert "1 could not be identified" in text


def test_one_wrong_slot_needs_no_word_about_shares() -> None:
    assert "not measured" not in story.cause(diagnosis([2, 5, 8]))


def test_broken_greedy_is_shouted_and_rounding_not_forgotten() -> None:
    broken = lines({"miswired": row("miswired", 0.2, 50, equal=False, dtype="bfloat16")})
    shout = next(line for line in broken if "DIFFERS" in line)
    assert "miswired" in shout
    assert "bfloat16" in shout
    assert "rounding" in shout
    assert not any("DIFFERS" in line for line in lines())


@pytest.mark.parametrize(("speed", "said"), [(80, "pays is not shown here"), (120, "no forecast")])
def test_no_speed_up_is_claimed(speed: float, said: str) -> None:
    assert said in lines({"right": row("right", 0.6, speed)})[-1]


@pytest.mark.parametrize(("high", "said"), [(82, "Speculation does not pay here"), (85, "pays is not shown here")])
def test_a_loss_of_speed_is_claimed_only_where_intervals_are_apart(high: float, said: str) -> None:
    base = row("baseline", speed=84).model_copy(update={"tokens_per_s_ci95": (83, 86)})
    right = row("right", 0.6, 80).model_copy(update={"tokens_per_s_ci95": (78, high)})
    assert said in lines({"baseline": base, "right": right})[-1]


def test_no_loss_of_speed_is_claimed_by_one_start() -> None:
    base = row("baseline", speed=84).model_copy(update={"tokens_per_s_ci95": (83, 86), "run": "b"})
    right = row("right", 0.6, 80).model_copy(update={"tokens_per_s_ci95": (78, 82), "run": "r"})
    assert "pays is not shown here" in lines({"baseline": base, "right": right})[-1]


def test_miswiring_costs_speed_only_where_it_did() -> None:
    assert any("costs speed" in line for line in lines())
    assert not any("costs speed" in line for line in lines({"miswired": row("miswired", 0.2, 200)}))


def test_noise_is_claimed_of_the_same_wiring_only() -> None:
    assert "the same wiring" in lines()[-1]
    assert "the same wiring" not in lines({"mended": row("mended", 0.6, ids=(1, 4, 7))})[-1]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.08, 0.17, "`right` is ahead of `off-by-one` by 12.5 points [+8.0, +17.0]"),
        (-0.35, -0.25, "`right` is behind `off-by-one` by 30.0 points [-35.0, -25.0]"),
        (-0.02, 0.04, "`right` and `off-by-one` cannot be told apart: +1.0 points [-2.0, +4.0]"),
    ],
)
def test_a_difference_is_claimed_as_far_as_its_interval_shows(low: float, high: float, said: str) -> None:
    assert any(said in line for line in lines(off=pair("right", "off-by-one", low, high)))


def test_the_off_by_one_server_is_judged_by_its_own_taps() -> None:
    assert any("Its captured taps say `slot-offset`" in line for line in lines())


def test_tables_hold_no_figure_that_was_not_measured() -> None:
    base = story.profile_rows([row("baseline")])[0]
    assert base["accept rate [95%]"] == base["accept length"] == base["verify steps"] == "-"
