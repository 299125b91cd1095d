"""Every figure says in words what it shows, wherever it is drawn: in reports, in the panel, in an exported page."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from stories import told_story

from helpers.acceptance.measurement import Measurement
from helpers.export import Offline
from helpers.figure_sentence import give_sentence, name_of, sentence_of
from helpers.figures import acceptance, acceptance_curves, acceptance_speed, tokens, training, wiring
from helpers.ledger.report import Section, write_report
from helpers.panels import acceptance_panel
from helpers.panels.acceptance_model import AcceptanceModel
from helpers.panels.chart import Chart

ROOMS = (acceptance, acceptance_curves, acceptance_speed, tokens, training, wiring)
BOTH = {"profile": ["right", "miswired"]}
ENDS = {"low": [2.7, 1.5], "high": [2.9, 1.7]}
#: Of each kind of figure its arguments, and the numbers that its sentence must have.
DRAWN: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "survival": (
        {"rows": pd.DataFrame({**BOTH, "k": 1, "survival": [0.8, 0.3], "low": [0.7, 0.2], "high": [0.9, 0.4]})},
        ("80.0% [70.0%, 90.0%] (right)", "30.0% [20.0%, 40.0%] (miswired)"),
    ),
    "accept_rates": (
        {"rows": pd.DataFrame({**BOTH, "accept_rate": [0.6, 0.217], "low": [0.55, 0.19], "high": [0.65, 0.24]})},
        ("60.0% [55.0%, 65.0%] (right)", "21.7% [19.0%, 24.0%] (miswired)", "miswired lies below that of right"),
    ),
    "accept_length_by_steps": (
        {"rows": pd.DataFrame({**BOTH, "num_steps": [3, 1], "accept_length": [2.8, 1.6], **ENDS})},
        ("right has 2.80 [2.70, 2.90] with 3 draft steps", "miswired has 1.60 [1.50, 1.70] with 1 draft step"),
    ),
    "over_position": (
        {"rows": pd.DataFrame({"profile": "right", "position": [8, 56], "accept_length": [2.8, 1.6], **ENDS})},
        ("2.80 [2.70, 2.90] around new token 8", "1.60 [1.50, 1.70] around new token 56"),
    ),
    "over_time": (
        {
            "rows": pd.DataFrame(
                {"time": [f"2026-11-30 05:0{m}:00" for m in range(3)], "server": "s", "accept_length": [1.5, 2.0, 3.0]}
            )
        },
        ("s has 2.00 in the middle of 3 intervals", "1.50 to 3.00"),
    ),
    "prompt_scatter": (
        {
            "rows": pd.DataFrame({"prompt": ["a", "b"], "first": [1.0, 2.0], "second": [2.5, 1.5], "steps": 9}),
            "first": "old",
            "second": "new",
        },
        ("new is ahead of old in 1 of 2 prompts", "-0.50 to +1.50"),
    ),
    "throughput_by_acceptance": (
        {
            "rows": pd.DataFrame(
                {**BOTH, "num_steps": [3, 1], "accept_length": [2.9, 1.2], "tokens_per_s": [113.0, 75.0]}
            ).assign(low=[109.0, 70.0], high=[117.0, 80.0]),
            "baseline": 100.0,
            "step_seconds": {1: 0.016, 3: 0.028},
        },
        (
            "No speculation gives 100.0 tok/s",
            "right with 3 draft steps is faster than no speculation: 113.0 [109.0, 117.0] tok/s, accept length 2.90 "
            "and 2.80 needed",
            "miswired with 1 draft step is slower than no speculation: 75.0 [70.0, 80.0] tok/s, accept length 1.20 "
            "and 1.60 needed",
        ),
    ),
    "predicted": (
        {
            "rows": pd.DataFrame(
                {
                    "num_steps": [1, 3],
                    "accept_length": [1.8, 2.9],
                    "seconds": [0.016, 0.028],
                    "tokens_per_s": [112, 103],
                }
            ).assign(low=[100, 99], high=[120, 107], break_even=[1.6, 2.8], basis="survival measured"),
            "baseline": 90.0,
            "num_steps": 3,
            "timed": [3],
        },
        ("At 3 draft steps, as served, speculation pays", "103.0 tok/s [99.0, 107.0] against 90.0", "needs 2.80"),
    ),
    "token_pair": (
        {
            "rows": pd.DataFrame({"order": range(3), "request": 0, "position": range(3), "token_id": 7}).assign(
                served_norm=[1.0, 1.0, 1.0],
                trained_norm=[2.0, 2.0, 2.0],
                cosine=[0.9, 0.9, 0.9],
                centred=[0.9, 0.5, 0.7],
            ),
            "title": "t",
        },
        ("over 3 tokens: 0.700 in the middle, 0.500 at the lowest (request 0, position 1)", "0.5 times"),
    ),
    "layer_tokens": (
        {
            "rows": pd.DataFrame(
                {"order": [0, 1] * 2, "boundary": [0, 0, 4, 4], "value": [0.1, 0.3, 0.98, 0.9]}
            ).assign(request=0, position=0, token_id=7),
            "title": "t",
            "value": "centred cosine",
            "mark": (1, 4, "here"),
        },
        ("2 tokens at 2 boundaries: highest at boundary 4, 0.94 in the middle token, 0.9 to 0.98", "Marked: here."),
    ),
    "training_curves": (
        {
            "rows": pd.DataFrame({"stage": "target", "step": [25, 50], "loss": [5.0, 4.25]}),
            "stages": ["target"],
            "columns": ["loss"],
            "title": "t",
            "y": "nats a token",
        },
        ("Curves of nats a token", "loss, from 5.000 at step 25 to 4.250 at step 50."),
    ),
    "feature_norms": (
        {
            "rows": pd.DataFrame(
                {"side": ["served", "served", "trained", "trained"], "slot": 0, "token": [0, 1, 0, 1]}
            ).assign(norm=[1.0, 1.0, 4.0, 4.0])
        },
        ("Slot 0 is fed vectors of 25% of its trained size",),
    ),
    "slot_matrix": (
        {"rows": pd.DataFrame({"served": [0, 0, 1, 1], "trained": [0, 1, 0, 1], "cosine": [0.2, 0.1, 0.9999, 0.3]})},
        ("slot 0 is no trained slot (the most alike, 0, has 0.200)", "slot 1 is trained slot 0 (1.000)"),
    ),
    "ladder": (
        {
            "rows": pd.DataFrame(
                {"side": ["served", "served", "trained", "trained"], "slot": 0, "boundary": [0, 1, 0, 1]}
            ).assign(cosine=[1.0, 0.5, 0.3, 1.0])
        },
        ("Served slots peak at the boundaries 0, trained ones at 1", "0.500 ahead of boundary 1"),
    ),
    "slot_costs": (
        {
            "rows": pd.DataFrame(
                {"slot": [2], "change": ["right"], "difference": [0.24], "low": [0.181], "high": [0.307]}
            )
        },
        ("slot 2: +24.0 points [+18.1, +30.7]",),
    ),
}
FIGURES = {
    name: function
    for room in ROOMS
    for name, function in inspect.getmembers(room, inspect.isfunction)
    if function.__module__ == room.__name__ and not name.startswith("_")
}


def drawn() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    for name, (arguments, numbers) in DRAWN.items():
        yield name, FIGURES[name](**arguments, caption="run r1"), numbers


class Captions(HTMLParser):
    """The text of each figcaption, one a figure, or what the figure is called where it has none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "figure":
            self.found.append(dict(attrs).get("aria-label") or "")
        self.inside = tag == "figcaption"

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1] += data


def captions(page: str) -> list[str]:
    parser = Captions()
    parser.feed(page)
    return parser.found


def test_every_kind_of_figure_is_here() -> None:
    assert set(DRAWN) == set(FIGURES)


def test_every_figure_carries_a_sentence_with_its_numbers() -> None:
    for name, figure, numbers in drawn():
        assert [number for number in numbers if number not in sentence_of(figure)] == [], name
        assert name_of(figure).startswith(f"{figure.layout.title.text}. "), name
        assert sentence_of(go.Figure(figure.to_dict())) == sentence_of(figure), name


def test_a_report_says_each_figure_in_words(tmp_path: Path) -> None:
    every = list(drawn())
    sections = [Section(name, ["Text"], figure=figure) for name, figure, _ in every]
    paths = write_report(tmp_path, title="T", summary=["S"], sections=sections, data={}, markdown=True)
    said = captions(paths.html.read_text())
    assert len(said) == len(every) == paths.html.read_text().count('class="plotly-graph-div"')
    text = (paths.markdown or Path()).read_text().replace("\\", "")
    for (name, _, numbers), caption in zip(every, said, strict=True):
        assert [number for number in numbers if number not in caption] == [], name
        assert [number for number in numbers if number not in text] == [], name


def test_a_figure_of_ones_own_has_the_name_of_its_chapter_and_hostile_words_stay_words(tmp_path: Path) -> None:
    bare, named = go.Figure(), go.Figure()
    give_sentence(named, "<b>slot</b> of ann@example.org in /srv/box/home")
    sections = [Section("Mine & theirs", [], figure=bare), Section("Named", [], figure=named)]
    paths = write_report(tmp_path, title="T", summary=[], sections=sections, data={}, homes=("/srv/box/home",))
    assert captions(paths.html.read_text()) == ["Mine & theirs", "<b>slot</b> of ***@*** in <box home>"]
    assert "figcaption>&lt;b&gt;slot" in paths.html.read_text()


def test_the_report_of_a_ledger_says_its_figures_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    page = told_story("case", figures=2).report().html.read_text()
    assert page.count("<figure>") == page.count("<figcaption>") == page.count('class="plotly-graph-div"') == 2
    assert all("Slot 0" in caption or "Served slots peak" in caption for caption in captions(page))


COMMON = {"dtype": "float32", "requests": 32, "greedy_equal": True, "first_difference": None, "verify_steps": 700}


def measured(name: str, rate: float, survival: float) -> Measurement:
    return Measurement(
        name=name,
        aux_layer_ids=None,
        boundaries=None,
        accept_length=1 + rate,
        accept_rate=rate,
        ci95=(rate - 0.03, rate + 0.03),
        survival=[survival],
        survival_ci95=[(survival - 0.05, survival + 0.05)],
        tokens_per_s=100.0,
        **COMMON,
    )


ROWS = [measured("right", 0.604, 0.82), measured("miswired", 0.217, 0.41)]


def test_the_acceptance_panel_says_both_figures_and_follows_what_is_shown() -> None:
    panel = acceptance_panel(ROWS)
    assert panel.wait(60)
    views = [chart.widget.children[0] for chart in (panel.curves, panel.rates)]
    assert "82.0% [77.0%, 87.0%] (right) and 41.0% [36.0%, 46.0%] (miswired)" in views[0].said
    assert "60.4% [57.4%, 63.4%] (right) and 21.7% [18.7%, 24.7%] (miswired)" in views[1].said
    panel.shown["miswired"].value = False
    assert "miswired" not in views[0].said + views[1].said
    assert views[1].said == "The accept rate is 60.4% [57.4%, 63.4%] (right)."
    assert views[1].label == "Accept rate per configuration, with 95% intervals"


def test_the_panels_static_twin_says_them_without_a_script() -> None:
    static = AcceptanceModel(ROWS).static()
    assert len(static.said) == len(static.figures) == 2
    for text in static.said:
        assert text in static.text
        assert text in static.html
    assert static.said[1].startswith("Accept rate per configuration, with 95% intervals: The accept rate is 60.4%")


def test_an_exported_page_names_a_figure_by_its_sentence() -> None:
    figure = next(figure for name, figure, _ in drawn() if name == "survival")
    page = Offline()._figure(json.loads(figure.to_json()))
    assert 'role="figure" aria-label="Acceptance survival S(k), with 95% bands. S(1) is 80.0% [70.0%, 90.0%]' in page
    html = Offline()._figure({"data": [], "layout": {"meta": {"said": 'a "<b>"'}}})
    assert 'aria-label="a figure. a &quot;&lt;b&gt;&quot;"' in html


def test_a_figure_without_words_is_drawn_as_before() -> None:
    chart = Chart()
    chart.show(go.Figure())
    view = chart.widget.children[0]
    assert (view.label, view.said) == ("a figure", "")
