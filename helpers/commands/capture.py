"""`workbook capture`: what is sent, what is captured of it, and where it goes."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.commands.wiring import FORMAT_HELP, lines
from helpers.defaults import SAMPLES
from helpers.errors import UsageError
from helpers.paths import investigations_dir

if TYPE_CHECKING:
    from helpers.acceptance import Prompt
    from helpers.serving.room import Boundaries


def capture(
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or its profile's name.")],
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="JSON lines of {id, input_ids}.")] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="DUMP", help=f"Send a dump's own token ids instead of prompts, {SAMPLES} samples of it."),
    ] = None,
    starts: Annotated[
        bool,
        typer.Option("--starts", help="With --replay: only what is before training's loss mask; the server goes on."),
    ] = False,
    boundaries: Annotated[str, typer.Option(metavar="all|LIST|none", help="Such as 0,2,5.")] = "all",
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Per prompt: 32; 1 with --replay, 64 with --starts.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many prompts, or samples.")] = None,
    terms: Annotated[bool, typer.Option("--terms", help="Also both terms of each boundary.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New; default one under data/investigations/captures/.")
    ] = None,
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP)] = None,
    as_json: AsJson = False,
) -> int:
    """Captures taps and feed of a running server while it answers prompts; pulls and verifies them.

    The server must have been started from a profile with `capture = true`: the hook is registered at the start. CUDA
    graphs must be off there, for hooks do not fire under graphs.

    A token takes a row of every boundary on every rank (7 MB for 61 layers of 7168 in bf16 at TP 8), and on the box
    twice that while ranks are put together. What it will take is told, and held against both disks, before anything
    is sent; --limit and --boundaries make it smaller.

    --replay shows what prompts feed the drafter, all of them in prefill passes. With --starts the server answers, and
    decode and verify passes are captured, in which other kernels may run.
    """
    from helpers.box import connect
    from helpers.serving import capture as taps
    from helpers.serving.registry import get_run

    wanted = parse_boundaries(boundaries)
    if (prompts is None) == (replay is None):
        raise UsageError(
            "WB-USAGE",
            "capture takes --prompts or --replay, one of them",
            expected="--prompts FILE or --replay DUMP",
            next="workbook capture --help",
        )
    if starts and replay is None:
        raise UsageError(
            "WB-USAGE",
            "--starts is of the samples of a dump, and --prompts was given",
            expected="--replay DUMP --starts",
            next="workbook capture --help",
        )
    new = max_new_tokens or (64 if starts else 1 if replay else 32)
    chosen, of = _texts(prompts, replay, format, limit, new if starts else None)
    if replay is not None:
        sys.stderr.write(f"{len(chosen)} of {of} samples of the dump are sent (--limit N for another number)\n")
    with connect(box) as connected:
        found = get_run(connected, run)
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
        folder = taps.capture(
            connected,
            found,
            chosen,
            boundaries=wanted,
            max_new_tokens=new,
            out=out or investigations_dir() / "captures" / f"{found.id}-{stamp}",
            terms=terms,
        )
    from helpers.tensors.inspect import inspect as look

    result = {"capture": str(folder), **look(folder)}
    result |= {"sent": len(chosen), "of": of} if replay is not None else {}
    emit(result, as_json=as_json, text=lines(result))
    return 0


def _texts(
    prompts: Path | None, replay: Path | None, format: str | None, limit: int | None, starts: int | None
) -> tuple[list[Prompt], int]:
    """What is sent, and of how many. ``starts``: new tokens that the server writes behind each start of a text."""
    from helpers.acceptance.prompts import texts

    if replay is None or starts is None:
        return texts(prompts, replay, format=format, limit=limit)
    from helpers.investigate.texts import starts as cut
    from helpers.tensors.dumps import read_dump

    dump = read_dump(replay, format=format)
    return cut(dump, limit or SAMPLES, starts), len(dump)


def parse_boundaries(text: str) -> Boundaries:
    """``all``, ``none`` or a list such as ``0,2,5``."""
    if text in ("all", "none"):
        return "all" if text == "all" else "none"
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(
            "WB-USAGE",
            f"--boundaries {text!r} is no list of boundaries",
            expected="all, none, or numbers with commas",
            next="--boundaries 0,2,5",
        ) from error
