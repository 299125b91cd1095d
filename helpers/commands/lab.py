"""`workbook lab up|status|down`: the box on this machine."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from helpers.box.lab import lab_down, lab_status, lab_up
from helpers.commands.output import AsJson, emit

app = typer.Typer(help="The lab: a box on this machine, reached over SSH, that runs the real SGLang on the CPU.")


@app.command()
def up(
    engine: Annotated[str, typer.Option(help="SGLang's version, or none for a box without.")] = "0.5.9",
    tp: Annotated[
        int | None, typer.Option(help="Check that the target splits so many ways; a profile says its server's own tp.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: a free one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Starts the lab, or finds the one that runs."""
    result = lab_up(engine=engine, tp=tp, port=port)
    emit(result, as_json=as_json, text=_describe(result, "is up" if result["started"] else "was up already"))


@app.command()
def status(as_json: AsJson = False) -> None:
    """Says where the lab is; exit 3 when none is up."""
    result = lab_status()
    emit(result, as_json=as_json, text=_describe(result, "is up"))


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stops the lab and everything that runs in it; its files stay."""
    result = lab_down()
    ended = f"; {result['ended']} processes of its sessions were ended" if result["ended"] else ""
    emit(result, as_json=as_json, text=("lab is down" if result["was_up"] else "lab was not up") + ended)


def _describe(lab: dict[str, Any], state: str) -> str:
    engine = f"SGLang {lab['engine']}" if lab["engine"] else "no SGLang"
    return "\n".join(
        [
            f"{lab['alias']} {state}: port {lab['port']}, {engine}, tp {lab['tp']}, home {lab['home']}",
            *(f"note: {warning}" for warning in lab.get("warnings", [])),
            f"by hand: ssh -F {shlex.quote(lab['ssh_config'])} {lab['alias']}",
        ]
    )
