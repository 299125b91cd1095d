"""Figures of acceptance and speed, drawn by a real Chromium: no text stands on other text, nothing is cut off.

.venv/bin/python -m pytest tests/browser/test_acceptance_figures.py
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from playwright.sync_api import Page, sync_playwright
from plotly.offline import get_plotlyjs

from helpers.acceptance.prediction import speed_model
from helpers.acceptance.speed import StepTime
from helpers.acceptance.tables import prediction_rows
from helpers.figures import acceptance, acceptance_curves, acceptance_speed

ARTEFACTS = Path(os.environ.get("WORKBOOK_TEST_ARTEFACTS") or Path(__file__).parents[2] / "test-artefacts")
CAPTION = "lab, sglang 0.5.9, run right-20261130-054146-c221, 32 requests, capture sha256 1f3a9c0d"
PROFILES = {"right": 0.75, "miswired": 0.4, "off-by-one": 0.6}
TEXTS = "document.querySelectorAll('#figure .gtitle, #figure .xtitle, #figure .ytitle, #figure .annotation-text, "
TEXTS += "#figure .legendtext, #figure .xtick text, #figure .ytick text')"


def curve(x: str, values: range) -> pd.DataFrame:
    rows = [
        (name, k, length, length - 0.1, length + 0.1, length, length * 30, length * 29, length * 31)
        for name, p in PROFILES.items()
        for k in values
        for length in [1 + sum(p**i for i in range(1, min(k, 4) + 1))]
    ]
    names = ["profile", x, "accept_length", "low", "high", "x", "tokens_per_s", "slow", "fast"]
    return pd.DataFrame(rows, columns=names)


def figures() -> dict[str, go.Figure]:
    steps = curve("num_steps", range(1, 5))
    survival = curve("k", range(1, 4)).assign(survival=lambda t: 1 - t["k"] / 4)
    survival = survival.assign(low=survival["survival"] - 0.05, high=survival["survival"] + 0.05)
    times = pd.DataFrame(
        [(f"2026-11-30 05:{m:02d}:00", f"DP{m % 2} TP0", 2 + m % 3 / 2, 1) for m in range(20)],
        columns=["time", "server", "accept_length", "running"],
    )
    prompts = pd.DataFrame(
        [(f"p{i}", 1 + i / 20, 1 + (i * 7 % 20) / 10, 5 + i) for i in range(20)],
        columns=["prompt", "first", "second", "steps"],
    )
    model = speed_model((0.8, 0.6, 0.5), [StepTime(0, 0.011), StepTime(1, 0.016), StepTime(3, 0.028)], num_steps=3)
    speeds = steps.drop(columns=["low", "high"]).rename(columns={"slow": "low", "fast": "high"})
    seconds = {1: 0.016, 2: 0.022, 3: 0.028, 4: 0.034}
    return {
        "survival": acceptance.survival(survival, caption=CAPTION),
        "steps": acceptance_curves.accept_length_by_steps(steps, caption=CAPTION),
        "position": acceptance_curves.over_position(curve("position", range(8, 200, 16)), caption=CAPTION),
        "time": acceptance_curves.over_time(times, caption=CAPTION),
        "prompts": acceptance_curves.prompt_scatter(prompts, first="miswired", second="right", caption=CAPTION),
        "throughput": acceptance_speed.throughput_by_acceptance(
            speeds, baseline=90.0, step_seconds=seconds, caption=CAPTION
        ),
        "predicted": acceptance_speed.predicted(
            prediction_rows(model), baseline=90.0, caption=CAPTION, measured=speeds[speeds["profile"] == "right"]
        ),
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    assert found, "no Chromium on this machine: apt-get install chromium"
    file = tmp_path_factory.mktemp("figures") / "page.html"
    file.write_text(f"<body><script>{get_plotlyjs()}</script><div id='figure'></div></body>", encoding="utf-8")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 900, "height": 700})
        page.goto(file.as_uri())
        yield page
        chromium.close()


def overlap(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Area that two texts share, in square pixels."""
    width = min(one["right"], other["right"]) - max(one["left"], other["left"])
    height = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return max(0.0, width) * max(0.0, height)


@pytest.mark.parametrize("name", list(figures()))
def test_a_figure_reads_well(name: str, page: Page) -> None:
    page.evaluate(
        "f => Plotly.newPlot('figure', f.data, f.layout, {displayModeBar: false})",
        json.loads(figures()[name].to_json()),
    )
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / f"figure-{name}.png"))
    boxes = page.evaluate(
        f"Array.from({TEXTS}).map(e => {{const b = e.getBoundingClientRect();"
        "return {text: e.textContent, left: b.left, right: b.right, top: b.top, bottom: b.bottom}})"
    )
    texts = [box["text"] for box in boxes]
    assert CAPTION in texts
    assert len(boxes) > 8
    frame = page.locator("#figure .main-svg").first.bounding_box()
    assert frame is not None
    for box in boxes:
        assert box["left"] >= frame["x"] - 1, box
        assert box["right"] <= frame["x"] + frame["width"] + 1, box
        assert box["bottom"] <= frame["y"] + frame["height"] + 1, box
    assert [(a["text"], b["text"]) for a, b in itertools.combinations(boxes, 2) if overlap(a, b) > 4] == []
