"""Notebook 05: how the lab's own pair was trained; it needs no box.

.venv/bin/python -m pytest tests/notebooks/test_lab_pair.py
"""

from __future__ import annotations

from pathlib import Path

import nbformat

from helpers.headless import run_notebook
from helpers.paths import ROOT


def test_the_curves_and_the_card_are_shown(tmp_path: Path) -> None:
    name = "05_the_lab_pair.ipynb"
    run_notebook(ROOT / "notebooks" / name, tmp_path / name)
    cells = [cell for cell in nbformat.read(tmp_path / name, as_version=4).cells if cell.cell_type == "code"]
    shown = [set(output.get("data", {})) for cell in cells for output in cell.outputs]
    assert sum("application/vnd.plotly.v1+json" in kinds for kinds in shown) == 2
    assert any("text/markdown" in kinds for kinds in shown)
    assert any("text/html" in kinds for kinds in shown)  # the rounds against loops
    told = "".join(str(output) for cell in cells for output in cell.outputs)
    assert "At step 600, the last that all were measured at: 0.311 (drafter), 0.356 (mirror)" in told
    assert "make lab-check PAIR=data/lab" in told
    assert "--draft data/lab/mirror/drafter" in told
