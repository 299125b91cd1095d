"""How every command speaks: text for people or one JSON object, never both on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from helpers.errors import WorkbookError
from helpers.screen import visible
from helpers.terminal import in_terminal

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; messages go to stderr.")]


def emit(result: Mapping[str, Any] | Sequence[Any], *, as_json: bool, text: str) -> None:
    """Prints a command's result: `result` as one JSON value with --json, else `text`, control characters as signs."""
    _print(json.dumps(result, indent=2, ensure_ascii=False) if as_json else visible(text.rstrip("\n"), lines=True))


def emit_error(error: WorkbookError, *, as_json: bool) -> None:
    """The error as text on stderr; with --json also as the object of design.md on stdout."""
    if as_json:
        _print(json.dumps(error.to_json(), indent=2, ensure_ascii=False))
    sys.stderr.write(in_terminal(error))


def _print(text: str) -> None:
    # An argument's bytes that are no UTF-8 arrive as lone surrogates, which no output takes.
    sys.stdout.write(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") + "\n")
    sys.stdout.flush()
