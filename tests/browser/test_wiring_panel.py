"""The wiring panel in a real JupyterLab: mouse, keyboard, and what the figures show then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import streams
from jupyter_page import NotebookPage
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def wiring(opened: Callable[..., NotebookPage], tmp_path: Path) -> NotebookPage:
    """A notebook with the panel of a miswired capture, run to its end."""
    texts = streams.texts()
    capture = streams.served(texts, (0, 2, 5)).write(tmp_path / "capture")
    dump = streams.write_dump(tmp_path / "dump", texts)
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
    served, trained = panel.get_by_label("Served slot"), panel.get_by_label("Trained slot")
    assert (served.input_value(), trained.input_value()) == ("0", "1")
    served.select_option("1")
    expect(title).to_have_text("Served slot 1 against trained slot 1, token by token")

    panel.get_by_label("Layers and tokens of").select_option("trained slot 1")
    expect(panel.locator(".gtitle").nth(1)).to_have_text("Trained slot 1 against the ladder, by layer and token")
    panel.get_by_label("Show the call").check()
    expect(panel).to_contain_text("pair_rows(tokens, served=1, trained=1)")
    wiring.screenshot("wiring-panel-keyboard", panel)

    static = wiring.output(2)
    expect(static.locator(".js-plotly-plot")).to_have_count(3)
    expect(static).to_contain_text("slot-embedding")
    wiring.screenshot("wiring-static", static)
    assert wiring.errors == []
