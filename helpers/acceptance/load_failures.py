"""Why a load ended early: what the client saw, and what the box says of the server at that time."""

from __future__ import annotations

import time

import httpx

from helpers.acceptance.load_records import Failure
from helpers.errors import WorkbookError
from helpers.serving.crash import LAST, recognise
from helpers.serving.registry import get_run
from helpers.serving.run import Run

#: Seconds for which a server that does not answer may still be dying; a scheduler's death takes the rest along.
PATIENCE = 20.0
SHOWN = 10


def as_failure(error: WorkbookError) -> Failure:
    """An error as a record."""
    return Failure(
        code=error.code,
        message=error.message,
        expected=error.expected,
        next=error.next,
        lines=tuple(error.lines),
    )


def explained(failure: Failure, run: Run, *, patience: float = PATIENCE) -> Failure:
    """What the client saw, with the state of the run: dead (then its log's cause is the cause), hung, or well.

    Never raises for what the box does: a box that cannot be asked is told as that.
    """
    box = run.box.name
    try:
        state = _look(run, patience)
        lines = [line.rstrip() for line in run.logs(tail=LAST)]
    except WorkbookError as error:
        said = f"{failure.message}; {box} could not be asked about {run.id}: {error.code}: {error.message}"
        return failure.model_copy(update={"message": said, "next": error.next or failure.next})
    if state in ("dead", "crippled"):
        crash = recognise(lines)
        what = f"{run.id} died" if state == "dead" else f"a worker process of {run.id} died"
        hint = crash.hint(box, run.id, run.whose)
        return Failure(
            code=crash.code,
            message=f"{what} on {box} in the middle of the load: {crash.summary}. Seen here: {failure.message}",
            expected="a server that lives as long as the load",
            next=hint if state == "dead" else f"workbook stop {box} {run.id} (what is left of it holds memory); {hint}",
            lines=crash.lines,
        )
    last = tuple(line for line in lines if line.strip())[-SHOWN:]
    if state == "silent":
        return failure.model_copy(
            update={
                "message": f"{failure.message}; {run.id} is alive on {box} and does not answer /health: it hangs",
                "next": f"workbook logs {box} {run.id} -n 40; then: workbook stop {box} {run.id}",
                "lines": last,
            }
        )
    message = f"{failure.message}; {run.id} is alive on {box} and answers /health"
    shown = failure.next.replace("BOX", box).replace("RUN", run.id)
    return failure.model_copy(update={"message": message, "next": shown, "lines": last})


def _look(run: Run, patience: float) -> str:
    """``dead``, ``crippled``, ``silent`` or ``well``; a server that is dying is given the time to be dead."""
    until = time.monotonic() + patience
    while True:
        found = get_run(run.box, run.id, python=run.record.engine.python)
        if found.state != "alive":
            return "dead"
        if _healthy(run):
            return "well"
        if time.monotonic() > until:
            return "crippled" if dead_workers(run) else "silent"
        time.sleep(0.5)


def dead_workers(run: Run) -> str | None:
    """Processes of a run that have died while its server lives and keeps their entries; None where there is none.

    SGLang 0.5.9 goes on listening when its scheduler is killed (by the kernel for its memory, say), and never answers.
    """
    try:
        told = run.box.run(["ps", "-eo", "pgid=,stat=,pid=,comm="], check=False, idempotent=True).stdout
    except WorkbookError:
        return None
    rows = [line.split(None, 3) for line in told.splitlines()]
    dead = [f"pid {row[2]} {row[3]}" for row in rows if len(row) == 4 and row[0] == str(run.pgid) and row[1][0] == "Z"]
    return f"worker processes of the server are dead: {', '.join(dead)}" if dead else None


def _healthy(run: Run) -> bool:
    try:
        with run.tunnel() as tunnel:
            return httpx.get(f"{tunnel.url}/health", timeout=PATIENCE / 4, trust_env=False).is_success
    except httpx.HTTPError:
        return False
