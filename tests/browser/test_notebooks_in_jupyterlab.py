"""The workbook's own notebooks in a real JupyterLab: opened, run from top to bottom, used, and looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest
from jupyter_page import ROOT, JupyterLab, NotebookPage
from leftovers import gone
from playwright.sync_api import expect

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]
LONG = 120_000  # ms


def place_of(name: str, text: str) -> int:
    """The number of the first code cell that holds a text, markdown cells included."""
    cells = json.loads((ROOT / "notebooks" / name).read_text())["cells"]
    return next(i for i, c in enumerate(cells) if c["cell_type"] == "code" and text in "".join(c["source"]))


def errors(notebook: NotebookPage) -> list[str]:
    return notebook.page.locator(".jp-Notebook [data-mime-type='application/vnd.jupyter.error']").all_inner_texts()


@pytest.fixture
def ran(opened: Callable[..., NotebookPage], jupyter: JupyterLab) -> Callable[[str], NotebookPage]:
    def run(name: str) -> NotebookPage:
        shutil.copy(ROOT / "notebooks" / name, jupyter.folder / name)
        notebook = opened(name)
        notebook.run_all()
        notebook.wait_idle(timeout=1200)
        assert errors(notebook) == []
        return notebook

    return run


def test_the_first_notebook_tells_the_whole_story(ran: Callable[[str], NotebookPage]) -> None:
    name = "00_start_here.ipynb"
    notebook = ran(name)
    found = notebook.output(place_of(name, "diagnosis = diagnose("))
    expect(found).to_contain_text("slot-embedding")
    expect(notebook.output(place_of(name, "write_demo_report") + 1)).to_contain_text("report.html")
    notebook.screenshot("notebook-00-diagnosis", found)
    notebook.screenshot("notebook-00-table", notebook.output(place_of(name, "profile_rows")))
    assert notebook.errors == []


def test_the_cosines_answer_to_a_click(ran: Callable[[str], NotebookPage]) -> None:
    name = "50_cosine_to_training.ipynb"
    notebook = ran(name)
    panel = notebook.output(place_of(name, "wiring_panel("))
    title = panel.locator(".gtitle").first
    lines = panel.locator(".js-plotly-plot").first.locator(".scatterlayer .js-line")
    expect(title).to_contain_text("Served slot", timeout=LONG)
    before = (title.text_content(), [line.get_attribute("d") for line in lines.all()])
    panel.get_by_role("button", name="1.000").first.click()
    expect(title).to_have_text("Served slot 1 against trained slot 0, token by token")
    assert before[0] != title.text_content()
    assert before[1] != [line.get_attribute("d") for line in lines.all()]
    notebook.screenshot("notebook-50-panel", panel)
    notebook.screenshot("notebook-50-costs", notebook.output(place_of(name, "slot_costs(")))
    assert notebook.errors == []


def test_a_cell_on_the_box_is_interrupted(opened: Callable[..., NotebookPage], jupyter: JupyterLab) -> None:
    script = "%%box lab\nexport MARK=815_interrupted\necho begun\nsleep 600 &\nsleep 600"
    notebook = opened("interrupted.ipynb", ["%load_ext helpers.magics", script, "%box lab echo and on"])
    notebook.run_cell(0)
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("begun", timeout=LONG)
    notebook.wait_running(1)
    notebook.interrupt()
    notebook.wait_idle()
    assert "KeyboardInterrupt" in notebook.error_of(1)
    assert gone("815_interrupted") == []
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("and on", timeout=LONG)
    notebook.screenshot("interrupted-box-cell", notebook.cell(1))
