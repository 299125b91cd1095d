"""What a command says that goes on where it was cut: its folder at the start, the command to type at an interrupt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from helpers.screen import as_typed


@contextlib.contextmanager
def goes_on(context: typer.Context, folder: Path) -> Iterator[None]:
    """Names the folder of the results; an interrupt inside the block carries the command that goes on there.

    Args:
        context: of the command; its ``obj`` holds the arguments that `workbook` was given (helpers/commands/app.py).
    """
    typer.echo(f"results in {folder}; after an interrupt go on with --out {as_typed(folder)}", err=True)
    try:
        yield
    except KeyboardInterrupt as cut:
        cut.add_note(f"  what there is lies in {folder}\n  next: {again(context.obj or (), folder)}")
        raise


def again(arguments: Sequence[str], folder: Path) -> str:
    """The same command on the same folder.

    >>> again(["bench", "lab", "right", "--prompts", "my prompts"], Path("b/1"))
    "workbook bench lab right --prompts 'my prompts' --out b/1"
    >>> again(["sweep", "lab", "--out=b"], Path("b"))
    'workbook sweep lab --out=b'
    """
    named = any(word == "--out" or word.startswith("--out=") for word in arguments)
    words = [*arguments, *([] if named else ["--out", str(folder)])]
    return " ".join(["workbook", *map(as_typed, words)])


def interrupted(error: BaseException) -> str:
    """What is said of an interrupt."""
    return "\n".join(["interrupted", *getattr(error, "__notes__", ())]) + "\n"
