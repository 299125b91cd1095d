"""Errors as a terminal shows them: commands as they can be pasted there, and where their page lies."""

from __future__ import annotations

import copy
import re
import shutil
import sys
from pathlib import Path

from helpers.errors import WorkbookError
from helpers.paths import error_page
from helpers.screen import as_typed

#: The command in a message, where it stands as a command: before a word of its own or an option, not in "the workbook".
_COMMAND = re.compile(r"(?<![\w./-])(?:\.venv/bin/)?workbook(?= [a-z]| -)")


def in_terminal(error: WorkbookError) -> str:
    """The whole error for people. What --json prints, and what a notebook shows, has the plain names."""
    shown = copy.copy(error)
    shown.next = as_called(error.next)
    return f"{shown}\n  page: {error_page(error.code)}\n"


def as_called(text: str) -> str:
    """``text`` with the command ``workbook`` as it was called, where a shell would not find it by its name alone."""
    if shutil.which("workbook"):
        return text
    return _COMMAND.sub(lambda _: as_typed(_called()), text)


def _called() -> str:
    if Path(sys.argv[0]).name == "workbook":
        return sys.argv[0]
    # Called as a module, or by another program: the one that was installed beside this interpreter.
    beside = Path(sys.prefix) / "bin" / "workbook"
    return str(beside) if beside.is_file() else "workbook"
