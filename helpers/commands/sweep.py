"""`workbook sweep`: thin, a call into helpers/acceptance/sweep_run and its result as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.going_on import goes_on
from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError
from helpers.paths import DATA, investigations_dir

if TYPE_CHECKING:
    from helpers.acceptance.points import Point

PROMPTS = DATA / "prompts" / "lab-heldout.jsonl"


def sweep(
    context: typer.Context,
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    grid: Annotated[Path, typer.Option(metavar="F", help="TOML or JSON; data/grids/lab-steps.toml is an example.")],
    prompts: Annotated[
        Path | None, typer.Option(metavar="F", help="JSON lines of prompts; else the grid's own, else the lab's.")
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option(metavar="F", help="TOML with profiles; else the grid's own, else the lab's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New, or to go on in; default: a new one.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the points and their order; start nothing.")] = False,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The whole grid N times: speeds then have intervals over starts."),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Measure failed and partial points again.")] = False,
    as_json: AsJson = False,
) -> int:
    """Measures acceptance and speed over a grid of configurations: one server start per configuration.

    The axes: profile, num_steps, topk, num_draft_tokens, ids, draft, backend, batch_size. Batch sizes share a start,
    and configurations that need the same patches follow each other.

    Every finished point is on disk at once. After a kill the same command with --out DIR goes on: no point is lost,
    none is run twice, and the server that was left is used or ended. A point that fails is recorded with its cause and
    skipped (exit 1).

    One start a point tells acceptance; for speeds take --rounds 4 on a machine that does nothing else, and the speed
    model's order of the points is held against the measured one. Each round is a sweep in a folder of its own.
    """
    from helpers.acceptance.grid import read_grid
    from helpers.acceptance.points import points
    from helpers.acceptance.prompts import KINDS, read_prompts
    from helpers.acceptance.sweep_results import sweep_text
    from helpers.acceptance.sweep_rounds import rounds_text, sweep_rounds
    from helpers.acceptance.sweep_run import sweep as measure
    from helpers.box import connect
    from helpers.serving import load_profiles

    wanted = read_grid(grid)
    known = load_profiles(profiles or wanted.profiles)
    every = points(wanted, known)
    asked = read_prompts(prompts or wanted.prompts or PROMPTS, limit=wanted.limit, kinds=KINDS)
    if plan:
        emit([_described(point) for point in every], as_json=as_json, text=_plan_text(every, len(asked)))
        return 0
    if not every:
        raise UsageError("WB-GRID-INVALID", f"{grid} has no point", expected="at least one", next="add [[points]]")
    folder = out or investigations_dir() / "sweeps" / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{grid.stem}"
    with goes_on(context, folder), connect(box) as connected:
        if rounds is not None:
            several = sweep_rounds(connected, wanted, known, asked, folder, rounds=rounds, retry=retry)
            emit({"box": box, **several.record()}, as_json=as_json, text=rounds_text(several))
            return 0 if several.good else 1
        found = measure(connected, wanted, known, asked, folder, retry=retry)
    emit({"box": box, **found.record()}, as_json=as_json, text=sweep_text(found))
    return 0 if found.good else 1


def _described(point: Point) -> dict[str, object]:
    return {
        "point": point.id,
        "server": point.server,
        "baseline": point.baseline,
        "axes": dict(point.axes),
        "patches": list(point.profile.patches),
    }


def _plan_text(every: list[Point], prompts: int) -> str:
    from helpers.acceptance.bench_text import table

    starts = len({point.server for point in every})
    head = ["point", "server", "patches", "steps", "topk", "tokens", "batch"]
    rows = [
        [
            point.id,
            point.server,
            ",".join(point.profile.patches) or "-",
            *(str(point.axes[name] or "-") for name in ("num_steps", "topk", "num_draft_tokens", "batch_size")),
        ]
        for point in every
    ]
    lines = table([head, *rows], left=3)
    return "\n".join([*lines, f"{len(every)} points, {starts} starts, {prompts} prompts each, in this order"])
