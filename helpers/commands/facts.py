"""`workbook facts BOX`: GPUs, memory, disk, Python and engine, running servers, and the laptop-vs-box table."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.commands.output import AsJson, emit


def facts(
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    python: Annotated[
        str | None,
        typer.Option(help="The box's interpreter to compare; default your own server's, else python3"),
    ] = None,
    folder: Annotated[
        list[str] | None, typer.Option(help="A folder whose disk is looked at too, such as a model's; repeatable")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Says what a box is and what runs on it, and how its packages compare with this machine's.

    Nothing is changed there. Exit 1 where a fact could not be read, a GPU is at fault, or a difference is critical.
    """
    from helpers.box import connect
    from helpers.serving.overview import overview

    with connect(box) as target:
        found = overview(target, interpreter=python, folders=folder or ())
    emit(found.to_json(), as_json=as_json, text=str(found))
    return 0 if found.good else 1
