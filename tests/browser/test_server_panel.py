"""The server panel in a real JupyterLab, on the real lab: a server started, seen, and stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jupyter_page import NotebookPage
from playwright.sync_api import expect

from helpers.box import connect
from helpers.serving import find_runs

pytestmark = pytest.mark.timeout(1200)
LONG = 180_000  # ms: a start beside other work


def test_a_server_is_started_and_stopped(opened: Callable[..., NotebookPage]) -> None:
    notebook = opened(
        "server.ipynb",
        [
            "import helpers\nfrom helpers.panels import server_panel\nfrom helpers.serving import load_profiles\n"
            'box = helpers.connect("lab")',
            "panel = server_panel(box, load_profiles())\npanel",
            "panel.static()",
        ],
    )
    notebook.run_all()
    notebook.wait_idle()
    panel = notebook.output(1)
    status = panel.get_by_role("status")
    expect(status).to_contain_text("Looking at the box: done", timeout=LONG)
    expect(panel).to_contain_text("GPUs: no nvidia-smi on the box")

    panel.get_by_label("Profile").select_option("miswired")
    panel.get_by_role("button", name="Start").click()
    expect(status).to_contain_text("✗ WB-SERVE-PATCH-MISSING", timeout=LONG)
    expect(status).to_contain_text("next: workbook patch lab apply capture-embedding")
    notebook.screenshot("server-panel-refused", panel)

    panel.get_by_label("Profile").select_option("right")
    panel.get_by_role("button", name="Show the command").click()
    expect(panel.get_by_label("the command, as it runs on the box")).to_contain_text("--port", timeout=LONG)
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_contain_text("▸ starting", timeout=LONG)
    expect(panel.get_by_role("button", name="Start")).to_be_disabled()
    notebook.screenshot("server-panel-starting", panel)

    notebook.run_cell(2)  # the kernel is free while a server starts
    expect(notebook.output(2)).to_contain_text("Server on lab", timeout=LONG)
    expect(status).to_contain_text("✓ Starting right: done", timeout=LONG)
    expect(panel.get_by_role("table")).to_contain_text("answers")
    expect(panel).to_contain_text("The server is fired up")
    notebook.screenshot("server-panel-ready", panel)
    with connect("lab") as box:
        living = find_runs(box, alive=True)
        assert [run.profile.name for run in living] == ["right"]
        assert living[0].answers

        panel.get_by_role("button", name="Stop").click()
        expect(status).to_contain_text(f"✓ Stopping {living[0].id}: done", timeout=LONG)
        expect(panel.get_by_role("table")).to_contain_text("stopped by ")
        assert find_runs(box, alive=True) == []

        panel.get_by_label("Profile").select_option("baseline")
        panel.get_by_role("button", name="Start").click()
        expect(panel).to_contain_text("▸ starting", timeout=LONG)
        panel.get_by_role("button", name="Cancel").click()
        expect(status).to_contain_text("Starting baseline: cancelled", timeout=LONG)
        assert find_runs(box, alive=True) == []
    notebook.screenshot("server-panel-stopped", panel)
    assert notebook.unnamed(panel) == []
    assert notebook.errors == []
