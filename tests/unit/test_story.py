"""The report's words follow from its figures."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.ledger import story


def row(name: str, rate: float | None = None, speed: float = 80, equal: bool = True) -> Measurement:
    return Measurement(
        name=name,
        aux_layer_ids=None if rate is None else [1, 4, 8],
        boundaries=None if rate is None else [2, 5, 9],
        accept_rate=rate,
        ci95=None if rate is None else (rate - 0.05, rate + 0.05),
        verify_steps=None if rate is None else 700,
        requests=32,
        tokens_per_s=speed,
        greedy_equal=equal,
        first_difference=None if equal else ("p3", 7),
    )


def diagnosis(served: list[int]) -> dict[str, Any]:
    pairs = enumerate(zip([2, 5, 9], served, strict=True))
    return {
        "aligned_tokens": 500,
        "findings": [],
        "fix": {"aux_layer_ids": [1, 4, 8]},
        "slots": [
            {"slot": k, "trained": {"boundary": t, "score": 0.99}, "served": {"boundary": s, "score": 1.0}}
            for k, (t, s) in pairs
        ],
    }


def lines(*, equal: bool = True, right_speed: float = 80) -> list[str]:
    rows = {
        "baseline": row("baseline", speed=84),
        "right": row("right", 0.6, right_speed),
        "miswired": row("miswired", 0.2, 50, equal),
        "off-by-one": row("off-by-one", 0.47),
        "mended": row("mended", 0.6),
    }
    pair = PairedDifference(first="a", second="b", difference=0.12, ci95=(0.08, 0.17), requests=32)
    return story.summary(rows, diagnosis([0, 2, 5]), pair, pair)


def test_the_cause_names_every_slot_and_the_lost_tap_and_blames_none_alone() -> None:
    text = story.cause(diagnosis([0, 2, 5]))
    assert "slot 0 is fed the embedding output (boundary 0) where training had boundary 2" in text
    assert "slot 2 is fed boundary 5 where training had boundary 9" in text
    assert "Boundary 9 reaches no slot" in text
    assert "not measured" in text


def test_no_cause_is_claimed_where_features_match() -> None:
    assert "lies elsewhere" in story.cause(diagnosis([2, 5, 9]))


def test_one_wrong_slot_needs_no_word_about_shares() -> None:
    assert "not measured" not in story.cause(diagnosis([2, 5, 8]))


def test_broken_greedy_is_shouted() -> None:
    assert any("DIFFERS" in line and "miswired" in line for line in lines(equal=False))
    assert not any("DIFFERS" in line for line in lines())


@pytest.mark.parametrize(("speed", "said"), [(80, "does not pay here"), (120, "no forecast")])
def test_no_speed_up_is_claimed(speed: float, said: str) -> None:
    assert said in lines(right_speed=speed)[-1]


def test_tables_hold_no_figure_that_was_not_measured() -> None:
    base = story.profile_rows([row("baseline")])[0]
    assert base["accept rate [95%]"] == base["accept length"] == base["verify steps"] == "-"
