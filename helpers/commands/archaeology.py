"""Reading the box's source: `workbook grep BOX PATTERN FILE` and `workbook show BOX FILE A:B`."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError

BoxName = Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")]
FileName = Annotated[
    str, typer.Argument(metavar="FILE", help="Relative to the checkout that the box's server imports, or absolute")
]
Interpreter = Annotated[
    str | None, typer.Option(help="The interpreter whose SGLang is meant; default the running server's, else python3")
]


def grep(
    box: BoxName,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Put -- before one that starts with -")],
    file: FileName,
    extended: Annotated[bool, typer.Option("-E", help="PATTERN is an extended regular expression.")] = False,
    fixed: Annotated[bool, typer.Option("-F", help="PATTERN is text, taken as it stands.")] = False,
    ignore_case: Annotated[bool, typer.Option("-i", help="Upper and lower case are the same.")] = False,
    python: Interpreter = None,
    as_json: AsJson = False,
) -> None:
    """Lines of a file of the box's SGLang that match, with their numbers; a binary file is searched as text.

    PATTERN is a GNU basic regular expression. No line at all is an answer too (exit 0).
    """
    from helpers.box import connect
    from helpers.source import archaeology

    if extended and fixed:
        raise UsageError("WB-USAGE", "-E and -F exclude each other", expected="one of them", next="workbook grep -h")
    syntax: archaeology.Syntax = "extended" if extended else "fixed" if fixed else "basic"
    with connect(box) as target:
        found = archaeology.grep(target, pattern, file, syntax=syntax, ignore_case=ignore_case, python=python)
    text = str(found) if found.lines else f"no line of {file} matches (sha256 {found.sha256})"
    emit([line.record() for line in found], as_json=as_json, text=text)


def show(
    box: BoxName,
    file: FileName,
    lines: Annotated[str, typer.Argument(metavar="A:B", help="First and last line; A: runs to the end")],
    python: Interpreter = None,
    as_json: AsJson = False,
) -> None:
    """Lines A to B of a file of the box's SGLang, and a permalink of the file's hash and version."""
    from helpers.box import connect
    from helpers.source import archaeology

    with connect(box) as target:
        found = archaeology.show(target, file, lines, python=python)
    emit([line.record() for line in found], as_json=as_json, text=f"{found}\n{found.permalink}")
