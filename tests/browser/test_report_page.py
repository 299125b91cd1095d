"""The demo's report in a real Chromium, with the network off."""

from __future__ import annotations

import pytest
from demo_run import DemoRun
from jupyter_page import ARTEFACTS
from playwright.sync_api import Browser

pytestmark = pytest.mark.timeout(1000)
FIGURES = 5


def test_the_report_opens_offline_and_draws_every_figure(demo: DemoRun, browser: Browser) -> None:
    context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((demo.folder / "report.html").as_uri())
    page.wait_for_function(f"document.querySelectorAll('.plotly-graph-div .main-svg').length >= {FIGURES}")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "report.png"), full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    for figure in page.query_selector_all(".plotly-graph-div"):
        box = figure.bounding_box()
        assert box is not None
        assert box["width"] > 400
        assert box["height"] > 300
    assert page.locator("tbody tr").count() >= 5 + 3 + 3
    context.close()
