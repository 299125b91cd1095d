"""The box's source: `workbook patch BOX plan|apply|status|revert NAME`, `workbook patch BOX ids DRAFT --ids=...`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.source.patches import PatchReport


class Action(StrEnum):
    """What to do with a patch."""

    PLAN = "plan"
    APPLY = "apply"
    STATUS = "status"
    REVERT = "revert"
    IDS = "ids"


def patch(
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="plan, apply, status, revert, or ids", show_choices=False)
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A patch's name or file; DRAFT for ids; status alone takes none, too"),
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="The interpreter whose SGLang is meant; default a server's")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What the server gets that decides its imports, such as PYTHONPATH"),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also under a living run; revert: also from a file that was changed since."),
    ] = False,
    ids: Annotated[str | None, typer.Option(metavar="IDS", help="ids: write these, as in --ids=2,30,58")] = None,
    take_back: Annotated[bool, typer.Option("--revert", help="ids: the config as it was before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Patches the checkout that the box's server imports, or the layer ids of a drafter; servers that run go on as
    they are, and are named.

    The patches that have names are the files under remote/patches/sglang-VERSION/ of this checkout; `workbook patch BOX
    status` without a name tells of all of them. Any other patch is named by its path.

    Exit 1 where plan or status find that the patch is neither in nor can go in.
    """
    from helpers.box import connect
    from helpers.serving.argv import expand
    from helpers.source import patches
    from helpers.source.whose import environment

    if action is not Action.IDS and (ids is not None or take_back):
        raise UsageError(
            "WB-USAGE",
            "--ids and --revert belong to the action ids",
            expected="workbook patch BOX ids DRAFT --ids=2,30,58",
            next="workbook patch -h",
        )
    if name is None and action is not Action.STATUS:
        raise UsageError(
            "WB-USAGE",
            f"patch {action} needs a name",
            expected="DRAFT, a drafter's folder on the box"
            if action is Action.IDS
            else f"a file of one's own, or one of {', '.join(_names())}",
            next=f"workbook patch {as_typed(box)} status",
        )
    given = environment(env or ())
    with connect(box) as target:
        variables = {each: expand(value, target.home) for each, value in given.items()}
        # A ~ that a shell left as it is, since it was quoted, is the box's home.
        interpreter = expand(python, target.home) if python else _interpreter(target)
        if name is None:
            if not _all(target, interpreter, variables, as_json=as_json):
                raise typer.Exit(1)
            return
        if action is Action.IDS:
            report = _ids(target, name, ids, take_back, force, interpreter, as_json=as_json)
        else:
            if action is Action.REVERT:
                report = patches.revert(target, name, python=interpreter, env=variables, force=force)
            elif action is Action.APPLY:
                report = patches.apply(target, name, python=interpreter, env=variables, force=force)
            else:
                work = {Action.PLAN: patches.plan, Action.STATUS: patches.status}[action]
                report = work(target, name, python=interpreter, env=variables)
            emit(report.model_dump(mode="json"), as_json=as_json, text=_text(report))
    if report is not None and not report.good:
        raise typer.Exit(1)


def _names() -> list[str]:
    from helpers.source.patch_state import PATCHES

    return sorted({file.stem for file in PATCHES.glob("sglang-*/*.patch")})


def _all(box: Box, python: str, env: dict[str, str], *, as_json: bool) -> bool:
    """The state of every patch that this checkout has for the box's engine; whether all are in, or can go in."""
    from helpers.source import patches

    reports = patches.statuses(box, python=python, env=env)
    text = "\n".join(map(_text, reports)) or "there is no patch here for the version of SGLang on this box"
    emit({"patches": [report.model_dump(mode="json") for report in reports]}, as_json=as_json, text=text)
    return all(report.good for report in reports)


def _ids(
    box: Box, draft: str, ids: str | None, take_back: bool, force: bool, python: str, *, as_json: bool
) -> PatchReport | None:
    """Write, take back or only tell the ids of a drafter."""
    from helpers.source import draft_ids

    if ids is not None and take_back:
        raise UsageError("WB-USAGE", "--ids and --revert exclude each other", expected="one of them", next="")
    if take_back:
        report = draft_ids.revert_ids(box, draft, python=python, force=force)
    elif ids is not None:
        report = draft_ids.set_ids(box, draft, draft_ids.parse_ids(ids), python=python, force=force)
    else:
        report = None
    now, kept = draft_ids.ids_status(box, draft, python=python)
    report = report or kept
    said = f"{draft}: " + (f"ids {now}" if now is not None else "no ids: the engine takes its defaults")
    result = {"draft": draft, "ids": now, "report": report.model_dump(mode="json") if report else None}
    emit(result, as_json=as_json, text=said + (f"\n{_text(report)}" if report else ""))
    return report


def _interpreter(box: Box) -> str:
    """That of your newest living run, else of anybody's, else python3."""
    from helpers.serving import find_runs
    from helpers.serving.registry import preferred

    living = find_runs(box, alive=True)
    return preferred(living).record.engine.python if living else "python3"


def _text(report: PatchReport) -> str:
    done = {"apply": "applied now", "revert": "taken out now"}.get(report.action, "") if report.changed else ""
    lines = [
        f"{report.name}: {report.state}"
        + (f" ({done})" if done else "")
        + (f", sglang {report.version}" if report.version else "")
    ]
    if report.proven is not None:
        lines.append("  the bytes are those from before it" if report.proven else "  not the bytes from before it")
    if report.since:
        lines.append(f"  since {report.since}")
    for server in report.servers:
        run = f" (run {server.run})" if server.run else ""
        lines.append(f"  pid {server.pid}{run} was started before and runs the old text: restart it")
    if report.action in ("plan", "status"):
        lines += [f"  relied on: {run}" for run in report.relying]
    for file in report.files:
        lines.append(f"  {report.checkout}/{file.path}" + (f", lines {_join(file.lines)}" if file.lines else ""))
        if file.before and file.after:
            lines.append(f"    sha256 {file.before[:16]} without it, {file.after[:16]} with it")
        if file.problem:
            lines.append(f"    {file.problem}")
        if file.above:
            lines.append(f"    below {', '.join(file.above)}: those come out first")
        lines += [f"    | {line}" for line in file.hunk]
    if report.state == "applied" and report.stock is False:
        lines.append("  without it the file is not the engine's own: it holds other edits")
    return "\n".join([*lines, *([report.diff.rstrip()] if report.diff else [])])


def _join(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
