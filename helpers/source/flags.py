"""Which arguments an engine's command line has, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from helpers.errors import UsageError
from helpers.source.setter import SourceTree

# One file up to 0.5.10; later the fields are spread over a folder, and arguments are made of their names.
FILE = "sglang/srt/server_args.py"
FOLDER = "sglang/srt/arg_groups/fields/"
LITERAL = re.compile(r"""["'](--[a-z0-9][a-z0-9-]*)["']""")


def launch_flags(source: Path) -> frozenset[str] | None:
    """The arguments of a wheel or a source folder; None where they are not written where they are known to be."""
    try:
        tree = SourceTree(source)
        texts = [tree.read(file) for file in (FILE, *tree.files(FOLDER))]
        found = {flag for text in texts for flag in (*LITERAL.findall(text), *declared(ast.parse(text)))}
    except (UsageError, SyntaxError):
        return None
    return frozenset(found) or None


def declared(tree: ast.Module) -> Iterator[str]:
    """Arguments that are made of annotated fields, ``name: A[type, help]``, but for those marked ``no_cli``."""
    for field in ast.walk(tree):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        note = field.annotation
        if not (isinstance(note, ast.Subscript) and isinstance(note.value, ast.Name) and note.value.id == "A"):
            continue
        if not any(isinstance(part, ast.keyword) and part.arg == "no_cli" for part in ast.walk(note)):
            yield "--" + field.target.id.replace("_", "-")
