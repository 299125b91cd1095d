"""One JupyterLab for the whole tier, one Chromium a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_page import JupyterLab, NotebookPage, chromium, jupyter_lab, open_notebook, write_notebook
from playwright.sync_api import Browser, expect, sync_playwright

expect.set_options(timeout=60_000)  # ms: beside other work a figure's script alone takes seconds


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One a module: while Playwright runs, nothing else in this process can have an event loop."""
    with sync_playwright() as playwright:
        started = chromium(playwright)
        yield started
        started.close()


@pytest.fixture(scope="session")
def jupyter(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """JupyterLab on an empty folder; its kernels have the lab of the session, and investigations of their own."""
    found = {"WORKBOOK_INVESTIGATIONS": str(tmp_path_factory.mktemp("found"))}
    with jupyter_lab(tmp_path_factory.mktemp("jupyter"), env=found) as lab:
        yield lab


@pytest.fixture(scope="module")
def opened(browser: Browser, jupyter: JupyterLab) -> Iterator[Callable[..., NotebookPage]]:
    """Opens a notebook made of the given cells, or one that lies in the server's folder."""
    contexts = []

    def opening(name: str, cells: list[str] | None = None) -> NotebookPage:
        if cells is not None:
            write_notebook(jupyter.folder / name, cells)
        context = browser.new_context(viewport={"width": 1300, "height": 1000})
        contexts.append(context)
        return open_notebook(context.new_page(), jupyter, name)

    yield opening
    for context in contexts:
        context.close()
