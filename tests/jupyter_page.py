"""A real JupyterLab, and a notebook in it as a user has it: opened, run, waited for, clicked, interrupted.

with jupyter_lab(folder) as lab:                        # a server of our own on a free port, behind a token
    notebook = open_notebook(browser.new_page(), lab, "50_cosine_to_training.ipynb")
    notebook.run_all()
    notebook.wait_idle()
    notebook.cell(3).get_by_role("button", name="Start").click()
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, Playwright

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = Path(os.environ.get("WORKBOOK_TEST_ARTEFACTS") or ROOT / "test-artefacts")
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight stay in the page
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


@dataclass(frozen=True)
class JupyterLab:
    """A server that answers. ``folder``: its root, where notebooks are opened from."""

    url: str
    token: str
    folder: Path


def chromium(playwright: Playwright) -> Browser:
    """Debian's Chromium, or whichever this machine has."""
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    assert found, "no Chromium on this machine: apt-get install chromium"
    return playwright.chromium.launch(executable_path=found, args=[*QUIET, "--disable-component-update"])


@contextmanager
def jupyter_lab(folder: Path, *, env: dict[str, str] | None = None, within: float = 120) -> Iterator[JupyterLab]:
    """JupyterLab on ``folder``; its kernels are this interpreter, and import this repository."""
    state = folder / ".jupyter"
    for name, setting in SETTINGS.items():
        file = state / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(setting))
    log = (state / "log").open("w")
    options = ["--no-browser", "--allow-root", "--ServerApp.port=0", "--LabApp.expose_app_in_browser=True"]
    options += ["--KernelManager.transport_encryption=auto"]  # as `make lab` has it
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JUPYTER_CONFIG_DIR": str(state / "config"),
            "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
            "IPYTHONDIR": str(state / "ipython"),
            **(env or {}),
        },
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        server = _ready(process, state, within)
        yield JupyterLab(server["url"], server["token"], folder)
    finally:
        process.send_signal(signal.SIGTERM)  # ends its kernels, and then itself
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _ready(process: subprocess.Popen[bytes], state: Path, within: float) -> dict[str, Any]:
    """What the server says of itself once it listens."""
    file = state / "runtime" / f"jpserver-{process.pid}.json"
    end = time.monotonic() + within
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and file.stat().st_size:
            said: dict[str, Any] = json.loads(file.read_text())
            return said
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{(state / 'log').read_text()[-3000:]}")


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


class NotebookPage:
    """A notebook that is open in JupyterLab. Made by `open_notebook`."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def wait_open(self, *, timeout: float = 180) -> None:
        """Until the notebook is there and its kernel is idle."""
        self.page.wait_for_function(
            """name => {
              const panel = window.jupyterapp?.shell?.currentWidget;
              return panel?.context?.path === name && panel.sessionContext?.session?.kernel?.status === "idle";
            }""",
            arg=self.name,
            timeout=timeout * 1000,
        )
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def reload(self) -> None:
        """The page anew; the kernel goes on."""
        self.page.reload()
        self.wait_open()

    def command(self, name: str) -> None:
        """Runs one of JupyterLab's commands, without waiting for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def run_cell(self, number: int) -> None:
        """Runs one cell, as Shift-Enter in it does."""
        self.page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n; }", number)
        self.command("notebook:run-cell")

    def interrupt(self) -> None:
        self.command("kernelmenu:interrupt")

    def restart(self) -> None:
        """A fresh kernel; outputs stay."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def cell(self, number: int) -> Locator:
        """A cell with its output, counted from 0, markdown cells included."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(number)

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea").first

    def wait_running(self, number: int, *, timeout: float = 60) -> None:
        """Until a cell is the one that runs."""
        self.cell(number).locator(".jp-InputPrompt", has_text="[*]").wait_for(timeout=timeout * 1000)

    def wait_idle(self, *, timeout: float = 400) -> None:
        """Until no cell waits or runs, and the kernel says that it is idle."""
        self.page.wait_for_function(
            """() => {
              const panel = window.jupyterapp.shell.currentWidget;
              const kernel = panel.sessionContext?.session?.kernel;
              const prompts = [...panel.node.querySelectorAll(".jp-InputPrompt")].map((p) => p.textContent);
              return kernel?.status === "idle" && !prompts.some((p) => p.includes("*"));
            }""",
            timeout=timeout * 1000,
        )

    def error_of(self, number: int) -> str:
        """The text of a cell's error output, empty where it has none."""
        found = self.output(number).locator("[data-mime-type='application/vnd.jupyter.stderr'], .jp-OutputArea-error")
        return "\n".join(found.all_inner_texts())

    def unnamed(self, part: Locator) -> list[str]:
        """Controls of a part of the page that a keyboard cannot reach, or that have no name for a screen reader."""
        found: list[str] = part.evaluate(
            """part => [...part.querySelectorAll("button, select, input, textarea, summary, [role=button]")]
              .filter((c) => !c.closest(".js-plotly-plot"))
              .filter((c) => {
                const labels = [...(c.labels || [])].map((l) => l.textContent).join("") + (c.textContent || "");
                const named = (c.getAttribute("aria-label") || labels || c.title || "").trim();
                return !named || (c.tabIndex < 0 && !c.disabled);
              })
              .map((c) => c.outerHTML.slice(0, 200))"""
        )
        return found

    def screenshot(self, name: str, part: Locator | None = None) -> Path:
        """Kept under test-artefacts/ for people to look at; the window grows so that all of ``part`` is in it."""
        ARTEFACTS.mkdir(exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        size, box = self.page.viewport_size, part.bounding_box() if part is not None else None
        if size is not None and box is not None:
            tall = max(size["height"], int(box["height"]) + 300)
            self.page.set_viewport_size({"width": size["width"], "height": tall})
        (part or self.page).screenshot(path=str(path), animations="disabled")
        if size is not None:
            self.page.set_viewport_size(size)
        return path


def open_notebook(page: Page, lab: JupyterLab, name: str, *, timeout: float = 180) -> NotebookPage:
    """Opens a notebook of the server's folder and waits until its kernel is there."""
    notebook = NotebookPage(page, name)
    page.goto(f"{lab.url}lab/tree/{name}?token={lab.token}&reset")
    notebook.wait_open(timeout=timeout)
    return notebook
