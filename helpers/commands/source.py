"""The box's source: `workbook patch BOX plan|apply|status|revert NAME`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.output import AsJson, emit

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.source.patches import PatchReport


class Action(StrEnum):
    """What to do with a patch."""

    PLAN = "plan"
    APPLY = "apply"
    STATUS = "status"
    REVERT = "revert"


def patch(
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    action: Annotated[Action, typer.Argument(help="What to do")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A patch under remote/patches/<engine>-<version>/")],
    python: Annotated[
        str | None, typer.Option(help="The interpreter whose SGLang is meant; default a server's")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="revert: also from a file that was changed since.")] = False,
    as_json: AsJson = False,
) -> None:
    """Patches the checkout that the box's server imports; a server that runs keeps what it has read.

    Exit 1 where plan or status find that the patch is neither in nor can go in.
    """
    from helpers.box import connect
    from helpers.source import patches

    with connect(box) as target:
        interpreter = python or _interpreter(target)
        if action is Action.REVERT:
            report = patches.revert(target, name, python=interpreter, force=force)
        else:
            work = {Action.PLAN: patches.plan, Action.APPLY: patches.apply, Action.STATUS: patches.status}[action]
            report = work(target, name, python=interpreter)
        emit(report.model_dump(mode="json"), as_json=as_json, text=_text(report))
    if not report.good:
        raise typer.Exit(1)


def _interpreter(box: Box) -> str:
    """That of the newest living run, else python3."""
    from helpers.serving import find_runs

    living = find_runs(box, alive=True)
    return living[-1].record.engine.python if living else "python3"


def _text(report: PatchReport) -> str:
    done = {"apply": "applied now", "revert": "taken out now"}.get(report.action, "") if report.changed else ""
    lines = [f"{report.name}: {report.state}" + (f" ({done})" if done else "") + f", sglang {report.version}"]
    if report.proven is not None:
        lines.append("  the bytes are those from before it" if report.proven else "  not the bytes from before it")
    if report.since:
        lines.append(f"  since {report.since}")
    for file in report.files:
        lines.append(f"  {report.checkout}/{file.path}" + (f", lines {_join(file.lines)}" if file.lines else ""))
        if file.before and file.after:
            lines.append(f"    sha256 {file.before[:16]} without it, {file.after[:16]} with it")
        if file.problem:
            lines.append(f"    {file.problem}")
        lines += [f"    | {line}" for line in file.hunk]
    if report.state == "applied" and report.stock is False:
        lines.append("  without it the file is not the engine's own: it holds other edits")
    return "\n".join(lines)


def _join(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
