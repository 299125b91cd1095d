"""`make demo`: runs notebooks/00_start_here.ipynb headless against the lab and prints what it measured.

The notebook is the story; this module only drives it: starts the lab when none is up, shows what the cells print while
they run, and leaves no process behind, whether it ends well, fails, or is interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from helpers.errors import WorkbookError
from helpers.paths import ROOT, investigations_dir

NOTEBOOK = ROOT / "notebooks" / "00_start_here.ipynb"


class _LiveClient(NotebookClient):
    """Executes a notebook, passes on what its cells print at once, and hands interrupts to the kernel.

    An interrupt is not raised here but sent to the kernel: the running cell then unwinds through its own clean-up
    (a server is stopped, a patch is reverted) and ends with KeyboardInterrupt, as it would in JupyterLab.
    """

    interrupts = 0

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "stream":
            sys.stderr.write(msg["content"]["text"])
            sys.stderr.flush()
        return super().process_message(msg, cell, cell_index)

    def on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self.interrupts == 1:
            _say("interrupted: stopping the server and putting things back")
        pid = getattr(getattr(self.km, "provisioner", None), "pid", None)
        if pid is None or self.interrupts > 3:  # no kernel yet, or one that does not listen
            raise KeyboardInterrupt
        os.kill(pid, signal.SIGINT)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None] | int) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP go to `handler` inside the block."""
    previous = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def run_notebook(path: Path, saved: Path, *, timeout: float = 1200) -> None:
    """Executes a notebook from top to bottom, in a kernel of this interpreter, in the notebook's own folder.

    Args:
        saved: where the notebook goes with its outputs, also when a cell fails: what ran until then is the evidence.
        timeout: seconds for one cell.

    Raises:
        KeyboardInterrupt: after the interrupted cell's own clean-up.
        CellExecutionError: when a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    titles = _titles(notebook)
    client = _LiveClient(
        notebook,
        timeout=int(timeout),
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=lambda cell, cell_index: _say(titles[cell_index]) if cell_index in titles else None,
    )
    try:
        with client.setup_kernel(), _handling(client.on_signal):
            for index, cell in enumerate(notebook.cells):
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    if client.interrupts:
                        raise KeyboardInterrupt from error
                    raise
                if client.interrupts:
                    raise KeyboardInterrupt
    finally:
        saved.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, saved)  # type: ignore[no-untyped-call]


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


def _say(text: str) -> None:
    sys.stderr.write(f"\n== {text}\n")
    sys.stderr.flush()


def table(report: dict[str, Any]) -> str:
    """The short table: a line a profile."""
    head = (
        f"{'profile':<12} {'ids':<12} {'boundaries':<11} {'accept rate [95%]':<23} {'length':>6} {'n':>5} "
        f"{'tok/s':>6}  greedy"
    )
    lines = [head, "-" * len(head)]
    for p in report["profiles"]:
        rate = "-" if p["accept_rate"] is None else "{:.3f} [{:.3f}, {:.3f}]".format(p["accept_rate"], *p["ci95"])
        length = "-" if p["accept_length"] is None else f"{p['accept_length']:.2f}"
        lines.append(
            f"{p['name']:<12} {_ids(p['aux_layer_ids']):<12} {_ids(p['boundaries']):<11} {rate:<23} {length:>6} "
            f"{p['verify_steps'] or '-':>5} {p['tokens_per_s']:>6.1f}  {'equal' if p['greedy_equal'] else 'DIFFERENT'}"
        )
    return "\n".join(lines)


def _ids(ids: list[int] | None) -> str:
    return "-" if ids is None else ",".join(map(str, ids))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def demo() -> int:
    """Runs the demo; 0 when the notebook ran to its end."""
    from helpers.box.lab import lab_down, lab_is_up, lab_up

    started = time.monotonic()
    folder = investigations_dir() / "demo"
    mine = not lab_is_up()
    try:
        with _handling(_interrupt):
            if mine:
                lab_up()
            run_notebook(NOTEBOOK, folder / NOTEBOOK.name)
    finally:
        if mine:
            with _handling(signal.SIG_IGN):  # a second Ctrl-C must not leave half a lab
                lab_down()
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    print(f"\n{table(report)}\n")
    for line in report["summary"]:
        print(f"* {line}")
    print(f"\nreport:   {os.path.relpath(folder / 'report.html')}")
    print(f"data:     {os.path.relpath(folder / 'report.json')}")
    print(f"notebook: {os.path.relpath(folder / NOTEBOOK.name)} (with its outputs)")
    print(f"took {time.monotonic() - started:.0f} s")
    return 0


def main() -> None:
    try:
        raise SystemExit(demo())
    except WorkbookError as error:
        sys.stderr.write(f"{error}\n  page: docs/errors/{error.code}.md\n")
        raise SystemExit(error.exit_code) from None
    except CellExecutionError as error:
        sys.stderr.write(f"\nthe notebook stopped: {error.ename}: {error.evalue}\n")
        sys.stderr.write(f"  next: open {os.path.relpath(NOTEBOOK)} with `make lab` and run up to that cell\n")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no process is left\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
