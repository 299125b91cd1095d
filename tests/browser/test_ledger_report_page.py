"""A ledger's report with ten figures and hostile strings in a real Chromium, with the network off."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from stories import told_story

ARTEFACTS = Path(os.environ.get("WORKBOOK_TEST_ARTEFACTS") or Path(__file__).parents[2] / "test-artefacts")
FIGURES = 10


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("investigations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_INVESTIGATIONS", str(folder))
        return told_story("ten", figures=FIGURES).report().html


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    assert found, "no Chromium on this machine: apt-get install chromium"
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*quiet, "--disable-component-update"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(chromium: Browser, report: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    """The page, what the console said, what was asked for."""
    context = chromium.new_context(offline=True, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.plotly-graph-div .main-svg').length >= {FIGURES}")
    yield page, said, asked
    context.close()


def test_it_opens_offline_and_nothing_hostile_runs(opened: tuple[Page, list[str], list[str]], report: Path) -> None:
    page, said, asked = opened
    assert report.stat().st_size < 8 << 20
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "ledger-report.png"), full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("img, iframe, link[href^='http']").count() == 0
    assert page.locator(".plotly-graph-div").count() == FIGURES
    assert "confirmed" in page.locator("table").first.inner_text()
    assert page.locator(".summary").inner_text().startswith("Confirmed, H1")
    assert page.evaluate("JSON.parse(document.getElementById('report-data').textContent).ledger.name") == "ten"


def test_every_figure_is_heard_as_its_sentence(opened: tuple[Page, list[str], list[str]]) -> None:
    figures = opened[0].get_by_role("figure")
    expect(figures).to_have_count(FIGURES)
    for place in range(FIGURES):
        expect(figures.nth(place)).to_have_accessible_name(
            re.compile(r"^(Slot 0 (is|has)|Served slots peak) .*\d.*\.$")
        )


def test_it_prints(opened: tuple[Page, list[str], list[str]]) -> None:
    page = opened[0]
    ARTEFACTS.mkdir(exist_ok=True)
    pdf = page.pdf(path=str(ARTEFACTS / "ledger-report.pdf"), format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 less its margins, at 96 dpi
    page.wait_for_function("document.documentElement.scrollWidth <= 718")
