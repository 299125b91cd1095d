"""Notebooks as pages: `workbook export NOTEBOOK`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from helpers.commands.output import AsJson, emit


def export(
    notebook: Annotated[Path, typer.Argument(metavar="NOTEBOOK", help="An .ipynb file, saved with its outputs")],
    out: Annotated[Path | None, typer.Option(help="The page to write; default beside the notebook")] = None,
    redact: Annotated[bool, typer.Option(help="Hide tokens, home folders and addresses, as reports do.")] = True,
    as_json: AsJson = False,
) -> None:
    """Writes a notebook as one HTML file that opens without a network: figures drawn, panels as their static twins.

    Exit 1 where the page would load something from elsewhere all the same (an image that a text links to).
    """
    from helpers.export import export_notebook

    done = export_notebook(notebook, out, redacted=redact)
    result = {"path": str(done.path), "figures": done.figures, "external": list(done.external)}
    lines = [f"{done.path}: {done.figures} figures", *(f"  loaded from elsewhere: {url}" for url in done.external)]
    emit(result, as_json=as_json, text="\n".join(lines))
    if done.external:
        raise typer.Exit(1)
