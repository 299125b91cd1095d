"""This side of the comparison: the interpreter that runs the workbook, asked the same question as the box's."""

from __future__ import annotations

import subprocess
import sys

from helpers.box.facts import python
from helpers.box.facts.answer import Absent, Answer, lines_of
from helpers.errors import RemoteFailed


def laptop() -> python.Python:
    """This interpreter and its packages; a process of its own, so that nothing is imported here.

    Raises:
        RemoteFailed: it cannot be read (WB-FACT-FAILED, WB-FACT-UNREADABLE).
    """
    argv = python.question(sys.executable).commands[0]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    found = python.parse(Answer(argv, lines_of(done.stdout), lines_of(done.stderr), done.returncode))
    if isinstance(found, Absent):  # a program of ours that is not there would have raised above
        raise RemoteFailed("WB-FACT-FAILED", found.absent, expected="this interpreter", next="make setup")
    return found
