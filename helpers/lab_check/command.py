"""The command: from its words to a table, also where it is cut on the way."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import WorkbookError
from helpers.interrupts import exit_status, handling, interruptible
from helpers.lab_check.asked import Asked, asked
from helpers.lab_check.measured import report
from helpers.lab_check.text import table
from helpers.progress import Progress
from helpers.screen import visible
from helpers.terminal import in_terminal

if TYPE_CHECKING:
    from helpers.acceptance.load_records import Load


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0: every claim holds. 1: one does not. 128 and the signal's number: cut. Else as errors say."""
    try:
        with interruptible():
            return _run(asked(argv))
    except WorkbookError as error:
        sys.stderr.write(in_terminal(error))
        return error.exit_code
    except KeyboardInterrupt as cut:
        sys.stderr.write("\ninterrupted\n")  # what was stopped on the way has said so
        return exit_status(cut)
    except BrokenPipeError:
        # The reader (head, less) went away: not an error, but the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(check: Asked) -> int:
    of, loads = check.of(), dict[str, "Load"]()
    try:
        measure(check, loads)
    except BaseException:
        if loads:
            try:
                tell(check, of, loads)
            except WorkbookError as second:  # must not hide why the check stopped
                sys.stderr.write(in_terminal(second))
        raise
    found = tell(check, of, loads)
    return 0 if all(claim["holds"] for claim in found["claims"]) else 1


def measure(check: Asked, loads: dict[str, Load]) -> None:
    """Serve the arms on the lab, into `loads`. The lab is started where none is up, and then stopped again."""
    import tempfile

    import helpers
    from helpers.box.lab import lab_down, lab_up
    from helpers.box.partial import local_problem
    from helpers.lab_check.arms import serve_arms

    mine = False
    try:
        scratch = tempfile.TemporaryDirectory(prefix="lab-check-")
    except OSError as error:
        raise local_problem(Path(tempfile.gettempdir()), error) from error
    with scratch as folder:
        try:
            mine = lab_up()["started"]
            with helpers.connect("lab") as box:
                serve_arms(box, check.pair.resolve(), check.names, check.prompts, check.new, Path(folder), loads)
        finally:
            if mine:
                with handling(signal.SIG_IGN):  # a second Ctrl-C must not leave half a lab
                    bar = Progress("lab")
                    lab_down()
                    bar.done("down, and with it every server")


def tell(check: Asked, of: dict[str, Any], loads: dict[str, Load]) -> dict[str, Any]:
    """Print what there is, then write it where it was asked for.

    Raises:
        UsageError: WB-LOCAL-WRITE, WB-DISK-FULL; by then the table is printed.
    """
    from helpers.box.partial import local_problem
    from helpers.ledger.files import write_whole
    from helpers.serving import load_profiles

    found = report(loads, load_profiles(), of=of, missing=[name for name in check.names if name not in loads])
    try:
        print(visible(table(found), lines=True), flush=True)
    finally:
        if check.out is not None:
            try:
                write_whole(check.out, (json.dumps(found, indent=1) + "\n").encode())
            except OSError as error:
                raise local_problem(check.out, error) from error
    return found
