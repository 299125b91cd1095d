"""`make demo`: runs notebooks/00_start_here.ipynb headless against the lab and prints what it measured.

The notebook is the story; this module only drives it: starts the lab when none is up, and leaves no process of its own
behind, whether it ends well, fails, or is interrupted. A lab that was up before stays up.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from helpers.errors import UsageError, WorkbookError
from helpers.interrupts import handling
from helpers.paths import ROOT, investigations_dir
from helpers.terminal import in_terminal

NOTEBOOK = ROOT / "notebooks" / "00_start_here.ipynb"


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


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One demo at a time: two would patch one checkout and write one report."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "WB-DEMO-RUNNING",
                f"a demo is running already (it holds {folder / '.lock'})",
                expected="one demo at a time in one investigations folder",
                next="wait for it, or stop it with Ctrl-C where it runs",
            ) from None
        yield


def demo() -> int:
    """Runs the demo; 0 when the notebook ran to its end."""
    sys.stderr.write("demo: the lab, then notebook 00 from top to bottom\n")
    # Here and not above: the imports take two seconds, in which Ctrl-C and silence must be handled as well.
    from helpers.box.lab import lab_down, lab_up
    from helpers.headless import run_notebook

    started = time.monotonic()
    folder = investigations_dir() / "demo"
    mine = False
    with _alone(folder):
        try:
            with handling(_interrupt):
                mine = lab_up()["started"]
                run_notebook(NOTEBOOK, folder / NOTEBOOK.name)
        finally:
            if mine:
                with handling(signal.SIG_IGN):  # a second Ctrl-C must not leave half a lab
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
    """Entry point of `make demo`: every failure is one message and an exit code."""
    try:
        raise SystemExit(demo())
    except WorkbookError as error:
        sys.stderr.write(in_terminal(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no process is left\n")
        raise SystemExit(130) from None
    except OSError as error:
        sys.stderr.write(f"\nthe demo could not write or read: {error}\n  next: free some disk, then make demo\n")
        raise SystemExit(4) from None
    except Exception as error:
        if type(error).__name__ != "CellExecutionError":  # its module is not imported before the demo runs
            raise
        sys.stderr.write(f"\nthe notebook stopped: {getattr(error, 'evalue', error)}\n")
        sys.stderr.write(f"  next: open {os.path.relpath(NOTEBOOK)} with `make lab` and run up to that cell\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
