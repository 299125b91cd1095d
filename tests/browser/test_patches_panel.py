"""The patches panel in a real JupyterLab, on the real lab; and a cell that runs beside it, interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jupyter_page import NotebookPage
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(1200)
LONG = 120_000  # ms
PATCHED = "home/sglang/python/sglang/srt/models/deepseek_v2.py"


def test_a_patch_is_planned_applied_and_reverted(opened: Callable[..., NotebookPage], lab_home: Path) -> None:
    file = lab_home / PATCHED
    stock = file.read_bytes()
    notebook = opened(
        "patches.ipynb",
        [
            'import helpers\nfrom helpers.panels import patches_panel\nbox = helpers.connect("lab")',
            "panel = patches_panel(box)\npanel",
            'import time\nprint("begun")\nfor _ in range(600):\n    time.sleep(1)',
            "panel.static()",
        ],
    )
    notebook.run_cell(0)
    notebook.run_cell(1)
    panel = notebook.output(1)
    status, table = panel.get_by_role("status"), panel.get_by_role("table").first
    expect(status).to_contain_text("✓ Looking at the patches", timeout=LONG)
    expect(table).to_contain_text("not in, can go in")

    notebook.run_cell(2)  # what runs in a cell keeps no panel from working
    expect(notebook.output(2)).to_contain_text("begun", timeout=LONG)
    panel.get_by_role("button", name="Plan").click()
    diff = panel.get_by_label("the patch capture-embedding")
    expect(diff).to_contain_text("+        self.capture_embedding_for_eagle3 = False", timeout=LONG)
    assert file.read_bytes() == stock
    notebook.screenshot("patches-panel-plan", panel)
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("capture-embedding is in now.", timeout=LONG)
    assert b"capture_embedding_for_eagle3" in file.read_bytes()
    notebook.screenshot("patches-panel-applied", panel)
    panel.get_by_role("button", name="Revert").focus()
    notebook.page.keyboard.press("Enter")
    expect(panel).to_contain_text("was taken out: the bytes are those from before it.", timeout=LONG)
    assert file.read_bytes() == stock

    mine = b"\n# a change of somebody's own\n"
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("capture-embedding is in now.", timeout=LONG)
    file.write_bytes(file.read_bytes() + mine)
    panel.get_by_role("button", name="Revert").click()
    expect(status).to_contain_text("✗ WB-PATCH-DRIFTED", timeout=LONG)
    panel.get_by_label("Show the call").check()
    call, force = panel.get_by_label("the equivalent Python"), panel.get_by_label("By force, once")
    expect(call).to_contain_text("patches.revert(box, 'capture-embedding')")
    expect(force).not_to_be_checked()
    panel.get_by_role("button", name="Revert").focus()
    notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Space")
    expect(force).to_be_checked()
    expect(panel).to_contain_text("It holds for one press.")
    expect(call).to_contain_text("patches.revert(box, 'capture-embedding', force=True)")
    notebook.screenshot("patches-panel-force", panel)
    panel.get_by_role("button", name="Revert").click()
    expect(panel).to_contain_text("was taken out: not the bytes from before it.", timeout=LONG)
    expect(status).to_contain_text("✓ Reverting capture-embedding by force")
    expect(force).not_to_be_checked()
    expect(call).not_to_contain_text("force=True")
    assert file.read_bytes() == stock + mine
    file.write_bytes(stock)

    own = panel.get_by_label("A file of your own")
    own.fill("/nowhere/x.patch")
    own.press("Enter")
    expect(status).to_contain_text("✗ WB-PATCH-UNKNOWN", timeout=LONG)
    notebook.screenshot("patches-panel-refused", panel)

    notebook.wait_running(2)
    notebook.interrupt()
    notebook.wait_idle()
    assert "KeyboardInterrupt" in notebook.error_of(2)
    notebook.screenshot("interrupted-cell", notebook.cell(2))
    notebook.run_cell(3)
    expect(notebook.output(3)).to_contain_text("Patches on lab", timeout=LONG)
    assert notebook.unnamed(panel) == []
    assert notebook.errors == []
