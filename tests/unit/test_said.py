"""The sentence under a figure, from tables made by hand: it says what the table has, and claims no more.

That every figure carries one, and is shown with it, test_figure_sentences.py holds.
"""

from __future__ import annotations

import ast
import inspect
import json

import pandas as pd
import pytest

from helpers.figures import acceptance, acceptance_curves, acceptance_speed, remarks, said, wiring
from helpers.paths import ROOT

ROOMS = (acceptance, acceptance_curves, acceptance_speed, wiring)
FIGURES = {
    n for room in ROOMS for n, f in inspect.getmembers(room, inspect.isfunction) if f.__module__ == room.__name__
}


def curve(name: str, *points: tuple[float, float, float]) -> list[dict[str, object]]:
    return [
        {"profile": name, "k": k, "survival": value, "low": low, "high": high}
        for k, (value, low, high) in enumerate(points, start=1)
    ]


RIGHT = curve("right", (0.8, 0.7, 0.9), (0.6, 0.5, 0.7))


def test_a_curve_that_falls_at_the_first_draft() -> None:
    wrong = curve("miswired", (0.3, 0.2, 0.4), (0.1, 0.0, 0.2))
    text = said.survival(pd.DataFrame([*wrong, *RIGHT]))
    assert text == (
        "S(1) is 30.0% [20.0%, 40.0%] (miswired) and 80.0% [70.0%, 90.0%] (right); all 2 drafts survive in "
        "10.0% [0.0%, 20.0%] (miswired) and 60.0% [50.0%, 70.0%] (right). "
        "The band of miswired lies below that of right already at the first draft."
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (curve("late", (0.75, 0.65, 0.85), (0.3, 0.2, 0.4)), "The band of late lies below that of right from k = 2 on"),
        (curve("mended", (0.8, 0.7, 0.9), (0.6, 0.5, 0.7)), "The curve of mended is that of right"),
        (curve("close", (0.75, 0.6, 0.9), (0.5, 0.4, 0.6)), "The bands of close and right overlap at every k"),
    ],
)
def test_curves_are_parted_only_where_their_bands_are(other: list[dict[str, object]], words: str) -> None:
    assert words in said.survival(pd.DataFrame([*RIGHT, *other]))


def test_no_curve_at_all() -> None:
    empty = pd.DataFrame(columns=["profile", "k", "survival", "low", "high"])
    assert said.survival(empty) == "No configuration here speculates."


def sizes(served: list[list[float]], trained: list[list[float]]) -> pd.DataFrame:
    rows = [
        {"side": side, "slot": slot, "token": token, "norm": norm}
        for side, slots in (("served", served), ("trained", trained))
        for slot, norms in enumerate(slots)
        for token, norm in enumerate(norms)
    ]
    return pd.DataFrame(rows)


def test_a_slot_of_a_hundredth_and_one_that_has_the_size_of_another() -> None:
    text = said.norms(sizes([[1.0, 1.0], [100.0, 110.0]], [[100.0, 110.0], [400.0, 330.0]]))
    assert text == (
        "Slot 0 is fed vectors of 0.95% of its trained size; slot 1 is fed vectors of 29% of its trained size, and has "
        "on every token the size of trained slot 0, to 0.5%."
    )


def test_equal_medians_are_not_equal_sizes() -> None:
    same = said.norms(sizes([[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]))
    assert same == "Slot 0 has its trained size on every token, to 0.5%."
    shuffled = said.norms(sizes([[3.0, 2.0, 1.0]], [[1.0, 2.0, 3.0]]))
    assert shuffled == "Slot 0 is fed vectors of 100% of its trained size."


def cells(*rows: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"served": s, "trained": t, "cosine": c} for s, row in enumerate(rows) for t, c in enumerate(row)]
    )


def test_a_shifted_matrix() -> None:
    text = said.slot_matrix(cells([0.2, 0.1, 0.1], [0.9999, 0.3, 0.2], [0.3, 0.9999, 0.4]))
    assert text == (
        "Served slot 0 is no trained slot (the most alike, 0, has 0.200); served slot 1 is trained slot 0 (1.000); "
        "served slot 2 is trained slot 1 (1.000). No served slot is trained slot 2."
    )


def test_a_right_matrix_names_nothing_lost() -> None:
    text = said.slot_matrix(cells([1.0, 0.2], [0.2, 0.999]))
    assert text == "Served slot 0 is its own trained one (1.000); served slot 1 is its own trained one (0.999)."


def rungs(served: list[list[float]], trained: list[list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"side": side, "slot": slot, "boundary": boundary, "cosine": cosine}
            for side, slots in (("served", served), ("trained", trained))
            for slot, row in enumerate(slots)
            for boundary, cosine in enumerate(row)
        ]
    )


def test_peaks_that_moved_and_the_tap_that_was_lost() -> None:
    text = said.ladder(rungs([[1.0, 0.5, 0.1], [0.2, 1.0, 0.9]], [[0.2, 1.0, 0.9], [0.1, 0.75, 1.0]]))
    assert text == (
        "Served slots peak at the boundaries 0 and 1, trained ones at 1 and 2: slots 0 and 1 peak elsewhere than in "
        "training; no served slot peaks at 2. The closest race is served slot 1: 0.100 ahead of boundary 2."
    )


def test_peaks_that_are_the_same() -> None:
    text = said.ladder(rungs([[1.0, 0.5]], [[1.0, 0.5]]))
    assert text == (
        "Served slots peak at the boundaries 0, trained ones at 0: the same. "
        "The closest race is served slot 0: 0.500 ahead of boundary 1."
    )


def test_what_a_slot_costs_and_the_bar_that_cannot_be_seen() -> None:
    rows = [
        (0, "zeros", 0.001, -0.002, 0.004),
        (0, "right", 0.02, -0.01, 0.05),
        (2, "zeros", -0.1, -0.2, -0.05),
        (2, "right", 0.24, 0.181, 0.307),
    ]
    text = said.slot_costs(pd.DataFrame(rows, columns=["slot", "change", "difference", "low", "high"]))
    assert text == (
        "What putting one slot right does to the accept rate: slot 2: +24.0 points [+18.1, +30.7]; slot 0: +2.0 points "
        "[-1.0, +5.0], not beyond chance. Of the other changes, slot 2 given zeros costs most: -10.0 points "
        "[-20.0, -5.0]. Too short a bar to be seen: slot 0 given zeros (+0.1 points [-0.2, +0.4], not beyond chance)."
    )


def test_a_change_that_changed_nothing_needs_no_interval() -> None:
    rows = pd.DataFrame([(0, "zeros", 0.0, 0.0, 0.0), (1, "later", -0.1, -0.2, -0.05)])
    text = said.slot_costs(rows.set_axis(["slot", "change", "difference", "low", "high"], axis=1))
    assert text.endswith("Too short a bar to be seen: slot 0 given zeros (no change in any request).")


def test_prompts_that_gain_and_lose() -> None:
    rows = pd.DataFrame({"prompt": ["a", "b", "c"], "first": [1.0, 2.0, 2.0], "second": [2.0, 2.0, 1.5], "steps": 9})
    assert said.prompts(rows, first="old", second="new") == (
        "new is ahead of old in 1 of 3 prompts, equal in 1 and behind in 1; the gain is +0.00 tokens per verify step "
        "in the middle prompt, and -0.50 to +1.00 over all."
    )
    assert "no prompt in common" in said.prompts(rows[:0], first="old", second="new")


POINTS = pd.DataFrame(
    [
        {"num_steps": 3, "tokens_per_s": 90.0, "low": 80.0, "high": 100.0, "accept_length": 2.5, "break_even": 1.9},
        {"num_steps": 8, "tokens_per_s": 99.0, "low": 70.0, "high": 120.0, "accept_length": 3.0, "break_even": 3.1},
    ]
)


@pytest.mark.parametrize(
    ("baseline", "words"), [(70.0, "speculation pays"), (90.0, "pay or not"), (110.0, "does not pay")]
)
def test_a_forecast_says_what_its_interval_says(baseline: float, words: str) -> None:
    assert words in said.forecast(POINTS, baseline=baseline, num_steps=3, measured=[3])


def test_one_number_of_steps_names_no_best() -> None:
    one = said.forecast(POINTS, baseline=70.0, num_steps=3, measured=[3])
    assert "which of them is best is not known" in one
    assert "8" not in one.replace("80.0", "")
    several = said.forecast(POINTS, baseline=70.0, num_steps=3, measured=[5, 3])
    assert "measured at 3 and 5 draft steps" in several
    assert "not known" not in several


def test_a_forecast_tells_the_break_even_with_its_interval_over_starts() -> None:
    def told(low: float | None, high: float | None, starts: int | None) -> str:
        rows = POINTS.assign(break_even_low=low, break_even_high=high, starts=starts)
        return said.forecast(rows, baseline=70.0, num_steps=3)

    assert told(1.8, 2.0, 3).endswith("and needs 1.90 [1.80, 2.00] (95% over 3 starts).")
    assert told(None, None, 1).endswith("and needs 1.90 (one start, so no interval).")
    assert told(None, None, None).endswith("and needs 1.90.")
    assert "speculation pays" in told(1.8, 2.4, 3)
    assert "speculation may pay or not" in told(1.2, 2.6, 3), "it has 2.5: starts do not tell, whatever prompts do"


def test_a_forecast_of_no_served_number_of_steps() -> None:
    assert said.forecast(POINTS, baseline=70.0) == (
        "Predicted are 90.0 [80.0, 100.0] with 3 draft steps and 99.0 [70.0, 120.0] with 8 draft steps, in tok/s, "
        "against 70.0 without speculation."
    )


def test_rates_are_parted_only_where_their_intervals_are() -> None:
    rows = pd.DataFrame(
        [("right", 0.6, 0.5, 0.7), ("mended", 0.6, 0.5, 0.7), ("close", 0.5, 0.4, 0.6), ("old", 0.2, 0.1, 0.3)],
        columns=["profile", "accept_rate", "low", "high"],
    )
    assert said.rates(rows) == (
        "The accept rate is 60.0% [50.0%, 70.0%] (right), 60.0% [50.0%, 70.0%] (mended), 50.0% [40.0%, 60.0%] (close) "
        "and 20.0% [10.0%, 30.0%] (old). That of mended is that of right. The intervals of close and right overlap, "
        "which a paired comparison may still part. The interval of old lies below that of right."
    )
    assert said.rates(rows[:0]) == "No configuration here speculates."


def test_peaks_of_one_side_alone() -> None:
    assert said.ladder(rungs([[1.0, 0.5]], [])) == "Served slots peak at the boundaries 0."


def test_taps_of_a_profile_against_those_of_training() -> None:
    assert remarks.taps("miswired", [-1, 1, 4], [0, 2, 5], [2, 5, 9], patch="p") == (
        "miswired: the ids -1, 1, 4 tap the boundaries 0, 2, 5, slot by slot; training had 2, 5, 9. That a negative id "
        "means the embedding (boundary 0) holds only while the patch p is in. Slots that differ: 0, 1, 2. Boundaries "
        "that reach no slot any more: 9."
    )
    same = remarks.taps("right", None, [2, 5, 9], [2, 5, 9], patch="p")
    assert same.startswith("right: no ids, so the engine's defaults tap")
    assert same.endswith("Every slot is what it was in training.")
    assert "number of slots differs: 2 against 3" in remarks.taps("two", [1, 4], [2, 5], [2, 5, 9])


def test_an_empty_ledger_says_what_to_do() -> None:
    assert "run the notebooks 10 to 60" in remarks.recorded(0, 0)
    assert remarks.recorded(1, 2) == "1 hypothesis, 2 pieces of evidence"


@pytest.mark.parametrize(("value", "shown"), [(["a", "b"], "a, b"), ([], "none"), ((1, 4), "1, 4"), (0.5, 0.5)])
def test_a_cell_is_written_as_a_person_writes_it(value: object, shown: object) -> None:
    assert remarks.plain(value) == shown


def test_the_outcome_follows_the_threshold_and_not_the_rates() -> None:
    rates = {"mended": "60%", "old": "20%"}
    assert remarks.outcome(rates, won=False, equal_text=True).startswith("acceptance did not come back")
    assert "NOT" in remarks.outcome(rates, won=True, equal_text=False)


def drawing_cells() -> list[tuple[str, str, set[str]]]:
    """Notebook, source and figures of each cell that draws one."""
    found = []
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            source = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
            drawn = {func.id for func in calls if isinstance(func, ast.Name)} & FIGURES
            found += [(path.stem, source, drawn)] if drawn else []
    return found


def test_every_figure_of_a_notebook_has_its_sentence() -> None:
    cells = drawing_cells()
    assert {name[:2] for name, _, _ in cells} >= {"00", "40", "50", "60"}
    assert [(name, drawn) for name, source, drawn in cells if source.count("said.") < len(drawn)] == []


def test_noise_between_starts_is_a_factor() -> None:
    text = remarks.between_starts({"old": 0.035, "new": 0.07})
    assert "35.0 ms (old) and 70.0 ms (new): a factor of 2.00" in text
