"""Notebook 90 where nothing is recorded, and off the lab: no error, and no words of the lab's own story."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from helpers.figures.remarks import OF_THE_LAB
from helpers.headless import run_notebook
from helpers.ledger import open_ledger
from helpers.paths import ROOT

NOTEBOOK = ROOT / "notebooks" / "90_verdict_and_report.ipynb"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    return tmp_path


def run(root: Path, *, box: str = "lab") -> str:
    """What its cells print, with `box` in its parameters."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert 'BOX = "lab"' in parameters.source
    parameters.source = parameters.source.replace('BOX = "lab"', f"BOX = {box!r}")
    nbformat.write(notebook, root / "given.ipynb")
    run_notebook(root / "given.ipynb", root / "ran.ipynb")
    outputs = [o for cell in nbformat.read(root / "ran.ipynb", as_version=4).cells for o in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs)


def test_an_investigation_in_which_nothing_was_recorded(root: Path) -> None:
    told = run(root)
    assert "Nothing is recorded yet: run the notebooks 10 to 60" in told
    assert not set(OF_THE_LAB.values()) & set(_limits(root)), "nothing was measured on the lab either"


@pytest.mark.parametrize(("box", "shown"), [("lab", True), ("gpu-box", False)])
def test_the_labs_story_stays_in_the_lab(root: Path, box: str, shown: bool) -> None:
    ledger = open_ledger("case")
    suspect = ledger.hypothesis("the ids are others", prediction="slot-wrong", threshold="one slot")
    ledger.evidence({"slots": 3}, on=suspect, title="slots")
    told = run(root, box=box)
    for words in OF_THE_LAB.values():
        assert (words in told) is shown
        assert (words in (root / "case" / "report.md").read_text()) is shown
    assert ("nothing was written down" in told) is not shown


def _limits(root: Path) -> list[str]:
    return list(json.loads((root / "case" / "report.json").read_text())["limits"])
