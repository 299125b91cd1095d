"""Runs a notebook from top to bottom without a browser, shows what its cells print, and saves it with its outputs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from helpers.interrupts import handling
from helpers.private_folder import private_folder


class _LiveClient(NotebookClient):
    """Executes a notebook, passes on what its cells print at once, and hands interrupts to the kernel.

    An interrupt is not raised here but sent to the kernel: the running cell then unwinds through its own clean-up
    (a server is stopped, a patch is reverted) and ends with KeyboardInterrupt, as it would in JupyterLab.
    """

    interrupts = 0

    @contextmanager
    def kernel(self) -> Iterator[None]:
        """The notebook's kernel for the time of the block, reached over sockets in a folder of this user alone.

        Over TCP, as by default, it would listen on ports of the loopback, where every user here can read what cells
        print; it says so on stderr each time that it starts. What stays is a port of ipykernel's own on which forked
        processes hand in what they print, with a secret: nothing can be read there.
        """
        with private_folder("kernel-", room=len("k-ipc-00")) as folder:
            # The sockets' names are made of the connection file's, which holds the key and lies there, too.
            connection = str(folder / "k.json")
            self.km = self.kernel_manager_class(
                kernel_name=self.kernel_name, transport="ipc", connection_file=connection
            )
            try:
                with self.setup_kernel(cleanup_kc=True):
                    yield
            finally:
                if self.km is not None:  # interrupted while it started: it must not outlive its folder
                    self.shutdown_kernel = "immediate"
                    self._cleanup_kernel()

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "stream":
            sys.stderr.write(msg["content"]["text"])
            sys.stderr.flush()
        return super().process_message(msg, cell, cell_index)

    def on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self.interrupts == 1:
            say("interrupted: stopping the server and putting things back")
        pid = getattr(getattr(self.km, "provisioner", None), "pid", None)
        if pid is None or self.interrupts > 3:  # no kernel yet, or one that does not listen
            raise KeyboardInterrupt
        os.kill(pid, signal.SIGINT)


def run_notebook(path: Path, saved: Path, *, timeout: float = 1200) -> None:
    """Executes a notebook in a kernel of this interpreter, in the notebook's own folder.

    Args:
        saved: where the notebook goes with its outputs, also when a cell fails: what ran until then is the evidence.
        timeout: seconds for one cell.

    Raises:
        KeyboardInterrupt: after the interrupted cell's own clean-up.
        CellExecutionError: when a cell failed.
        OSError: when the result cannot be saved, and nothing worse happened before.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    titles = _titles(notebook)
    client = _LiveClient(
        notebook,
        timeout=int(timeout),
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=lambda cell, cell_index: say(titles[cell_index]) if cell_index in titles else None,
    )
    try:
        with client.kernel(), handling(client.on_signal):
            for index, cell in enumerate(notebook.cells):
                _execute(client, cell, index)
    except BaseException:
        try:
            _save(notebook, saved)
        except OSError as error:  # must not hide why the notebook stopped
            say(f"the notebook's outputs could not be saved to {saved}: {error}")
        raise
    _save(notebook, saved)


def _execute(client: _LiveClient, cell: Any, index: int) -> None:
    try:
        client.execute_cell(cell, index)
    except CellExecutionError as error:
        if client.interrupts:
            raise KeyboardInterrupt from error
        raise
    if client.interrupts:
        raise KeyboardInterrupt


def _save(notebook: Any, saved: Path) -> None:
    saved.parent.mkdir(parents=True, exist_ok=True)
    part = saved.with_name(saved.name + ".part")
    nbformat.write(notebook, part)  # type: ignore[no-untyped-call]
    part.replace(saved)


def _titles(notebook: Any) -> dict[int, str]:
    """Cell index -> the heading above it, for the first code cell after each heading."""
    titles, pending = {}, ""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            heads = [line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")]
            pending = heads[-1] if heads else pending
        elif pending:
            titles[index], pending = pending, ""
    return titles


def say(text: str) -> None:
    """A headline on stderr."""
    sys.stderr.write(f"\n== {text}\n")
    sys.stderr.flush()
