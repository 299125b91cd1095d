"""How every command speaks: text for people or one JSON object, never both on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from helpers.errors import WorkbookError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; messages go to stderr.")]


def emit(result: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """Prints a command's result: `result` as one JSON object with --json, else `text`."""
    sys.stdout.write((json.dumps(result, indent=2, ensure_ascii=False) if as_json else text.rstrip("\n")) + "\n")
    sys.stdout.flush()


def emit_error(error: WorkbookError, *, as_json: bool) -> None:
    """The error as text on stderr; with --json also as the object of design.md on stdout."""
    if as_json:
        sys.stdout.write(json.dumps(error.to_json(), indent=2, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    sys.stderr.write(f"{error}\n  page: docs/errors/{error.code}.md\n")
