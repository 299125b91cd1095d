"""Servers on a box: `workbook serve`, `wait`, `stop`, `logs` and `runs`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.box.result import printable
from helpers.commands.output import AsJson, emit
from helpers.terminal import as_called

if TYPE_CHECKING:
    from helpers.serving import Run

BoxName = Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, a beginning of its own, or a profile's name (the newest)"),
]
Timeout = Annotated[
    float | None, typer.Option(min=0, help="Seconds to wait for it; default the profile's start_timeout.")
]


def serve(
    box: BoxName,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="The profile's name")],
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file with profiles; default data/profiles/lab.toml")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only show the command; exit 1 where a patch is missing."),
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the server answers.")] = True,
    timeout: Timeout = None,
    leave: Annotated[bool, typer.Option("--leave", help="On Ctrl-C leave the loading server running.")] = False,
    as_json: AsJson = False,
) -> None:
    """Starts a server from a profile; it outlives this command and the connection."""
    from helpers.box import connect
    from helpers.serving import get_profile, launch
    from helpers.serving import plan as look
    from helpers.serving.argv import masked_argv

    wanted = get_profile(profile, profiles)
    with connect(box) as target:
        if plan:
            planned = look(target, wanted, unpatched=True)
            result = {
                "profile": wanted.name,
                "port": planned.port,
                "argv": list(masked_argv(planned.argv)),
                "command": planned.text,
                "missing": [error.to_json()["error"] for error in planned.missing],
            }
            first = [f"before the start: {error.next}  # {error.message}" for error in planned.missing]
            emit(result, as_json=as_json, text=as_called("\n".join([planned.text, *first])))
            if planned.missing:
                raise typer.Exit(1)
            return
        began = time.monotonic()
        run = launch(target, wanted)
        if wait:
            run.wait_ready(timeout, on_interrupt="leave" if leave else "stop")
        _served(run, box, began, ready=wait, as_json=as_json)


def wait(box: BoxName, run: RunName, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Waits until a server that was started earlier answers; nothing is started, and Ctrl-C stops the waiting alone."""
    from helpers.box import connect
    from helpers.errors import RemoteFailed
    from helpers.serving import get_run
    from helpers.serving.again import serve_again

    with connect(box) as target:
        began = time.monotonic()
        found = get_run(target, run)
        if found.state == "stopped":
            raise RemoteFailed(
                "WB-SERVE-DIED",
                f"{found.id} on {box} does not load: {found.ending}",
                expected="a server that loads, or answers",
                next=serve_again(found),
            )
        found.wait_ready(timeout, on_interrupt="leave")
        _served(found, box, began, ready=True, as_json=as_json)


def _served(run: Run, box: str, began: float, *, ready: bool, as_json: bool) -> None:
    """Tell of a server that was started, or waited for."""
    seconds = round(time.monotonic() - began, 1)
    result = {**_described(run), "ready": ready, "seconds": seconds}
    text = f"{run.id}: {'ready' if ready else 'started'} after {seconds} s, port {run.port} of {box}, pid {run.pid}"
    if not ready:
        text += f"\nwait: workbook wait {box} {run.id}"
    text += f"\nlogs: workbook logs {box} {run.id}\nstop: workbook stop {box} {run.id}"
    emit(result, as_json=as_json, text=as_called(text))


def stop(
    box: BoxName,
    run: RunName,
    force: Annotated[bool, typer.Option("--force", help="Also a run that somebody else started.")] = False,
    orphans: Annotated[bool, typer.Option("--orphans", help="Also its processes that left its group.")] = False,
    grace: Annotated[float, typer.Option(help="Seconds between SIGTERM and SIGKILL.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Stops a run, and makes sure that nothing of it is left."""
    from helpers.box import connect
    from helpers.serving import get_run

    with connect(box) as target:
        report = get_run(target, run).stop(force=force, orphans=orphans, grace=grace)
        ended = len(report.signalled)
        text = f"{report.run}: stopped"
        if report.was == "dead" and not ended:
            earlier = f"{report.stopped.get('at')} by {report.stopped.get('by')}" if report.stopped else ""
            text = f"{report.run}: it was {f'stopped already, {earlier}' if earlier else 'dead already'}"
        text += f", {ended} processes ended in {report.seconds:.1f} s, port closed" if ended else ""
        if report.killed:
            text += f"; {len(report.killed)} of them needed SIGKILL"
        emit(report.model_dump(mode="json"), as_json=as_json, text=text)


def logs(
    box: BoxName,
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the server ends.")] = False,
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=0, help="Only the last so many.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prints a run's log; with --follow as it grows, also across a lost connection (--json: an object a line)."""
    from helpers.box import connect
    from helpers.serving import get_run

    with connect(box) as target:
        found = get_run(target, run)
        text = found.logs(follow=follow, tail=lines)
        if as_json and not follow:
            emit({"run": found.id, "lines": list(text)}, as_json=True, text="")
            return
        for line in text:
            sys.stdout.write((json.dumps({"run": found.id, "line": line}) if as_json else line) + "\n")
            sys.stdout.flush()


def runs(
    box: BoxName,
    alive: Annotated[bool, typer.Option("--alive", help="Only those whose server lives.")] = False,
    as_json: AsJson = False,
) -> None:
    """Lists the runs of a box, also those that others started with this login, and how those that are over ended."""
    from helpers.box import connect
    from helpers.serving import find_runs

    with connect(box) as target:
        found = find_runs(target, alive=alive, endings=True)
        text = runs_table(found) if found else f"no run {'lives ' if alive else ''}on {box}"
        emit({"box": box, "runs": [_described(run) for run in found]}, as_json=as_json, text=text)


def runs_table(runs: list[Run]) -> str:
    """The runs as a table for people."""
    rows = [f"{'run':<36} {'state':<9} {'port':>5} {'pid':>7}  {'started':<21} {'owner':<20} ended"]
    for run in runs:
        record = run.record
        ended = printable(str(run.ending or "-"))
        at = f"{run.id:<36} {printable(run.shown_state):<9} {run.port:>5} {run.pid:>7}  {record.started:<21}"
        rows.append(f"{at} {printable(record.owner):<20} {ended}")
    return "\n".join(rows)


def _described(run: Run) -> dict[str, Any]:
    record = run.record.model_dump(mode="json", by_alias=True)
    ended = None if run.ending is None else {"code": run.ending.code, "summary": run.ending.summary}
    return {**record, "state": run.state, "answers": run.answers, "url": run.url, "ended": ended}
