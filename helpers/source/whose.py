"""Which SGLang of a box is meant, as words of a command: an interpreter, and what decides where it imports from.

>>> options("/opt/venv/bin/python", {"PYTHONPATH": "/my src", "HF_TOKEN": "x"})
"--python /opt/venv/bin/python --env 'PYTHONPATH=/my src'"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from helpers.errors import UsageError
from helpers.screen import as_typed

#: What decides where an interpreter imports from.
DECIDES = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "LD_LIBRARY_PATH")


def options(python: str, env: Mapping[str, str] | None = None) -> str:
    """The options of `workbook patch` that mean this interpreter as a server with this environment would start it."""
    words = ["--python", python]
    for name, value in (env or {}).items():
        if name in DECIDES:
            words += ["--env", f"{name}={value}"]
    return " ".join(map(as_typed, words))


def environment(words: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as variables.

    Raises:
        UsageError: WB-USAGE for a word that is none, and for a variable that decides nothing here.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in DECIDES:
            raise UsageError(
                "WB-USAGE",
                f"--env {word!r} does not say where an interpreter imports from",
                expected="NAME=VALUE, NAME one of " + ", ".join(DECIDES),
                next="--env PYTHONPATH=/folder/on/the/box",
            )
        found[name] = value
    return found
