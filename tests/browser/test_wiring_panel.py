"""The wiring panel in a real JupyterLab: mouse, keyboard, and what the figures show then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import streams
from jupyter_page import ARTEFACTS, JupyterLab, NotebookPage
from playwright.sync_api import Browser, expect

from helpers.export import export_notebook

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def wiring(opened: Callable[..., NotebookPage], tmp_path_factory: pytest.TempPathFactory) -> NotebookPage:
    """A notebook with the panel of a miswired capture, run to its end."""
    texts, folder = streams.texts(), tmp_path_factory.mktemp("sides")
    capture = streams.served(texts, (0, 2, 5)).write(folder / "capture")
    dump = streams.write_dump(folder / "dump", texts)
    notebook = opened(
        "wiring.ipynb",
        [
            "from helpers.panels import wiring_panel\n"
            "from helpers.tensors.capture import read_capture\n"
            "from helpers.tensors.dumps import read_dump\n"
            "from helpers.wiring.diagnosis import diagnose\n"
            f"capture, dump = read_capture({str(capture)!r}), read_dump({str(dump)!r})",
            "panel = wiring_panel(capture, dump, diagnose(capture, dump))\npanel",
            "panel.static()",
            "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1, 3, 2]))",
            "import ipywidgets\nipywidgets.IntSlider()",
        ],
    )
    notebook.run_all()
    notebook.wait_idle()
    return notebook


def test_a_click_on_a_cell_of_the_matrix_changes_the_figure(wiring: NotebookPage) -> None:
    panel = wiring.output(1)
    title, lines = (
        panel.locator(".gtitle").first,
        panel.locator(".js-plotly-plot").first.locator(".scatterlayer .js-line"),
    )
    expect(title).to_have_text("Served slot 2 against trained slot 2, token by token")  # the worst of the diagonal
    before = [line.get_attribute("d") for line in lines.all()]
    wiring.screenshot("wiring-panel", panel)

    panel.get_by_role("button", name="1.000").nth(1).click()
    expect(title).to_have_text("Served slot 2 against trained slot 1, token by token")
    expect(panel.get_by_role("button", name="▸ 1.000")).to_have_count(1)
    assert len(before) == 4
    assert [line.get_attribute("d") for line in lines.all()] != before
    expect(panel).to_contain_text("median centred cosine 1.0000")
    wiring.screenshot("wiring-panel-clicked", panel)

    # The same by keyboard: a cell, then the lists, which say the same pair.
    panel.get_by_role("button", name="0.878").focus()
    wiring.page.keyboard.press("Enter")
    expect(title).to_have_text("Served slot 0 against trained slot 1, token by token")
    served, trained = panel.get_by_label("Served slot", exact=True), panel.get_by_label("Trained slot", exact=True)
    assert (served.input_value(), trained.input_value()) == ("0", "1")
    served.select_option("1")
    expect(title).to_have_text("Served slot 1 against trained slot 1, token by token")

    panel.get_by_label("Layers and tokens of", exact=True).select_option("trained slot 1")
    expect(panel.locator(".gtitle").nth(1)).to_have_text("Trained slot 1 against the ladder, by layer and token")
    panel.get_by_label("Show the call").check()
    expect(panel).to_contain_text("pair_rows(tokens, served=1, trained=1)")
    wiring.screenshot("wiring-panel-keyboard", panel)

    static = wiring.output(2)
    expect(static.locator(".js-plotly-plot")).to_have_count(3)
    expect(static).to_contain_text("slot-embedding")
    wiring.screenshot("wiring-static", static)
    assert wiring.unnamed(panel) == []
    assert wiring.errors == []


def test_the_exported_page_shows_every_figure_with_the_network_off(
    wiring: NotebookPage, jupyter: JupyterLab, browser: Browser
) -> None:
    wiring.save()
    done = export_notebook(jupyter.folder / "wiring.ipynb")
    assert done.figures == 3 + 3 + 1  # beside the live panel, of its static twin, and a plain figure
    assert done.external == ()
    assert done.path.stat().st_size < 8_000_000
    context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(done.path.as_uri())
    figures = page.locator(".plotly-graph-div .main-svg:first-child")
    expect(figures).to_have_count(done.figures)
    for figure in figures.all():
        box = figure.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 300
    expect(page.get_by_role("table").first).to_contain_text("trained slot 0")
    expect(page.locator("body")).to_contain_text("an interactive part, shown only by a running notebook")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "exported.png"), full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()
