"""The static twins of panels in notebooks that nobody watches: what is saved is the end of the first look.

.venv/bin/python -m pytest tests/notebooks/test_panel_twins.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from helpers.export import export_notebook
from helpers.paths import ROOT

# A look that takes longer than a display waits for while somebody is there, and one that fails.
SLOW = """
import time
from helpers.errors import RemoteFailed
from helpers.panels.panel import FIRST_LOOK, Panel
from helpers.panels.static import Static

class Slow(Panel):
    def __init__(self, fails=False):
        super().__init__()
        self.title, self.found = "Slow", "not looked at yet"
        self.assemble([], [])
        def work(token):
            time.sleep(FIRST_LOOK + 1)
            if fails:
                raise RemoteFailed("WB-RUN-FAILED", "'ls' ended with 2", expected="0", next="workbook run lab -- ls")
            return "it was looked at"
        self.work("Looking", work, lambda found: setattr(self, "found", found), drop=True)
    def snapshot(self):
        return Static("Slow", [self.found])
    def call(self):
        return ""
"""
BOX = """
import helpers
from helpers.panels import patches_panel, server_panel
from helpers.serving import load_profiles
box = helpers.connect("lab")
"""


def executed(folder: Path, *cells: str) -> nbformat.NotebookNode:
    """The cells run by `jupyter execute`, which saves and leaves at once; and their page."""
    path = folder / "copy.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path)
    subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)],
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=240,
    )
    return nbformat.read(path, as_version=4)


def twin(cell: nbformat.NotebookNode) -> str:
    """What a cell leaves for a browser."""
    return "".join(out["data"]["text/html"] for out in cell.outputs if "data" in out)


def test_a_look_that_takes_long_is_waited_for_and_one_that_fails_says_why(tmp_path: Path) -> None:
    cells = executed(tmp_path, SLOW, "Slow()", "Slow(fails=True)", "Slow().static()").cells
    for cell in (cells[1], cells[3]):
        assert "it was looked at" in twin(cell)
        assert "not looked at yet" not in twin(cell)
    assert "WB-RUN-FAILED: 'ls' ended with 2" in twin(cells[2]).replace("&#x27;", "'")
    assert export_notebook(tmp_path / "copy.ipynb").path.read_text().count("it was looked at") >= 2


@pytest.mark.usefixtures("lab_home")
def test_the_panels_of_a_box_are_saved_as_they_found_it(tmp_path: Path) -> None:
    cells = executed(tmp_path, BOX, "patches_panel(box)", "server_panel(box, load_profiles())").cells
    assert "capture-embedding" in twin(cells[1])
    assert "memory: " in twin(cells[2])
    for cell in cells[1:]:
        assert "not looked at yet" not in twin(cell)
