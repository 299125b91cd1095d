"""One colour for one meaning, whatever figure it is in and in whatever order its rows come."""

from __future__ import annotations

import pandas as pd
import pytest

from helpers.figures.acceptance import accept_rates, survival
from helpers.figures.acceptance_speed import predicted
from helpers.figures.palette import CHANGES, CONFIGURATIONS, SIDES, SLOTS, configurations
from helpers.figures.wiring import feature_norms, ladder, slot_costs

NAMES = ["miswired", "mended", "right"]


def of(names: list[str]) -> pd.DataFrame:
    rows = [{"profile": n, "k": 1, "survival": 0.5, "accept_rate": 0.5, "low": 0.4, "high": 0.6} for n in names]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("names", [NAMES, NAMES[::-1], ["miswired"], ["mended", "miswired"]])
def test_a_configuration_keeps_its_colour(names: list[str]) -> None:
    curves = {t.name: t.line.color for t in survival(of(names), caption="").data if t.name}
    (bars,) = accept_rates(of(names), caption="").data
    assert curves == dict(zip(bars.x, bars.marker.color, strict=True)) == {n: CONFIGURATIONS[n] for n in names}


def test_a_forecast_has_the_colour_of_its_configuration() -> None:
    point = {"num_steps": 3, "tokens_per_s": 9.0, "low": 8.0, "high": 10.0, "accept_length": 2.0, "break_even": 1.5}
    rows = pd.DataFrame([{**point, "seconds": 0.1, "basis": "survival measured"}])
    figure = predicted(rows, baseline=5.0, caption="", profile="mended")
    assert figure.data[1].line.color == CONFIGURATIONS["mended"]


def test_names_of_ones_own_have_colours_of_their_own_in_any_order() -> None:
    names = ["prod", "canary", "miswired", "right"]
    styles = configurations(names)
    assert styles == configurations(names[::-1])
    assert len({style.colour for style in styles.values()}) == len(names)
    assert styles["right"].colour == CONFIGURATIONS["right"]


def test_many_names_are_told_apart_by_more_than_colour() -> None:
    styles = configurations([f"profile {i}" for i in range(20)])
    assert len({(s.colour, s.dash, s.marker) for s in styles.values()}) == 20


def test_meanings_that_stand_beside_each_other_have_colours_of_their_own() -> None:
    assert len(set(CHANGES.values())) == len(CHANGES)
    assert not set(SLOTS) & {*SIDES.values(), *CONFIGURATIONS.values()}


def test_sides_slots_and_changes_are_drawn_by_what_they_are() -> None:
    norms = pd.DataFrame([{"side": s, "slot": 0, "token": 1, "norm": 1.0} for s in ("served", "trained")])
    assert {t.name: t.marker.color for t in feature_norms(norms, caption="").data} == SIDES
    rungs = pd.DataFrame([{"side": "served", "slot": slot, "boundary": 0, "cosine": 1.0} for slot in (1, 2)])
    assert [t.line.color for t in ladder(rungs, caption="").data] == list(SLOTS[1:3])
    changed = pd.DataFrame([{"slot": 0, "change": "later", "difference": 0.1, "low": 0.0, "high": 0.2}])
    assert slot_costs(changed, caption="").data[0].marker.color == CHANGES["later"]
