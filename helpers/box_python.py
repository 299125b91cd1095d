"""An interpreter on a box for the workbook's own code there, where the one that was meant cannot run it.

That code needs the standard library of Python 3.9 and nothing else, so any interpreter will do: that of the server, or
of an earlier run. A box whose ``python3`` is older serves from a profile's own interpreter; to find the server again,
to stop it or to fetch from it, the same one is as good.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.box import Box

PYTHON = "python3"
#: An interpreter on the box to take instead of ``python3``.
VARIABLE = "WORKBOOK_PYTHON"

# Without site-packages and PYTHONPATH: it starts faster, and is not touched by what an environment installs into every
# Python.
BARE = ("-E", "-s", "-S")

_SUITS = "import sys; sys.exit(sys.version_info < (3, 9))"
_NAMED = '"python": *"([^"\\\\]|\\\\.)*"'
_TRIED = 8  # of those that runs name


def interpreter(box: Box, python: str) -> str:
    """The interpreter as it is started on the box: no shell is there that would read ``~/`` as the home."""
    return box.path(python) if python.startswith("~/") else python


def chosen(box: Box, python: str = PYTHON) -> str:
    """What to run our code with where ``python`` is meant; as it was found out before, if it was."""
    meant = interpreter(box, os.environ.get(VARIABLE) or python if python == PYTHON else python)
    return box.pythons.get(meant, meant)


def another(box: Box, python: str) -> str | None:
    """An interpreter that suits in the place of ``python``, which gave no answer; it is kept for the box.

    None where ``python`` suits, so that something else is wrong, and where there is none.
    """
    if suits(box, python):
        return None
    tried = [python]
    for candidate in (os.environ.get(VARIABLE, ""), PYTHON, *_of_runs(box)):
        if candidate and candidate not in tried:
            tried.append(candidate)
            if suits(box, candidate):
                box.pythons |= dict.fromkeys(
                    [*(p for p, found in box.pythons.items() if found == python), python], candidate
                )
                return candidate
    return None


def suits(box: Box, python: str) -> bool:
    """Whether an interpreter is there and new enough."""
    return box.run([python, *BARE, "-c", _SUITS], check=False, idempotent=True).ok


def _of_runs(box: Box) -> list[str]:
    """The interpreters that the records of runs name, read without any: ``grep`` is on every box."""
    words = ["grep", "-rhoE", "--include=run.json", _NAMED, box.path("~/.workbook/runs")]
    said = box.run(words, check=False, idempotent=True).stdout
    found: dict[str, None] = {}
    for line in said.splitlines():
        try:
            word = json.loads("{" + line + "}")["python"]
        except ValueError:
            continue
        found[interpreter(box, word)] = None
    return list(found)[:_TRIED]
