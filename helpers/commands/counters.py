"""`workbook counters`: thin, a call into helpers/acceptance/sources and its result as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError

if TYPE_CHECKING:
    from helpers.acceptance.measurement import Measurement
    from helpers.acceptance.sources import Counters


class Kind(StrEnum):
    """What FILE is."""

    LOG = "log"
    METRICS = "metrics"
    RESPONSES = "responses"
    SERVER_INFO = "server-info"


def counters(
    file: Annotated[str, typer.Argument(metavar="FILE|BOX", help="A saved file, or with RUN the box that it runs on")],
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Reads this run's log on BOX")] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="sglang==X", help="Asked only where the figures themselves allow two meanings."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="With RUN: figures as the log grows.")] = False,
    kind: Annotated[Kind | None, typer.Option(help="What FILE is; else how it begins tells.")] = None,
    draft_tokens: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="num_draft_tokens, where the source does not tell it.")
    ] = None,
    num_steps: Annotated[
        int | None, typer.Option(min=1, help="Draft steps of the server: length of survival with topk > 1.")
    ] = None,
    bench: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With RUN: a bench of it, whose answers' rate is put beside.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Says what acceptance saved answers, a log, a /metrics page or a /server_info answer show, in one meaning.

    accept length = 1 + correct / verify steps; accept rate = correct / proposed drafts; S(k) = share of verify steps
    that accepted at least k drafts. What the source meant by its own figures stands under `meaning`, decided by its own
    numbers. Exit 1 where they contradict each other.
    """
    if run is None:
        if bench is not None:
            raise UsageError(
                "WB-USAGE",
                "--bench needs a run on a box",
                expected="workbook counters BOX RUN --bench DIR",
                next="workbook runs BOX",
            )
        if follow:
            raise UsageError(
                "WB-USAGE",
                "--follow needs a run on a box",
                expected="workbook counters BOX RUN --follow",
                next="workbook runs BOX",
            )
        found = _from_file(Path(file), engine, kind, draft_tokens, num_steps)
        emit(found.model_dump(mode="json"), as_json=as_json, text=str(found))
        return
    for found in _from_run(file, run, engine, follow, draft_tokens):
        if not follow:
            values, text = found.model_dump(mode="json"), str(found)
            if bench is not None:
                from helpers.acceptance.sources import beside

                values["beside"] = beside(found, _answers(bench, run))
                text += f"\nbeside: {values['beside']}"
            emit(values, as_json=as_json, text=text)
            continue
        sys.stdout.write((json.dumps(found.model_dump(mode="json")) if as_json else _short(found)) + "\n")
        sys.stdout.flush()


def _answers(folder: Path, run: str) -> Measurement:
    """What a bench measured of a run, by its id or its profile's name."""
    from helpers.acceptance.bench_run import SUMMARY
    from helpers.acceptance.measurement import Measurement

    file = folder / SUMMARY
    arms = json.loads(file.read_text())["arms"] if file.is_file() else []
    rows = [Measurement.model_validate(arm) for arm in arms]
    found = next((row for row in rows if run in (row.name, *row.runs)), None)
    if found is None:
        told = ", ".join(word for row in rows for word in (row.name, *row.runs))
        raise UsageError(
            "WB-USAGE",
            f"--bench {folder} measured no {run}" + (f"; it has {told}" if told else f"; it has no {SUMMARY}"),
            expected="the folder of a bench of that run, with its summary.json",
            next="the last line of `workbook bench` names its folder",
        )
    return found


def _from_file(
    path: Path, engine: str | None, kind: Kind | None, draft_tokens: int | None, num_steps: int | None
) -> Counters:
    from helpers.acceptance.sources import read_counters
    from helpers.progress import progress

    size = path.stat().st_size if path.is_file() else 0
    with progress("counters", enabled=size > 50_000_000, done="read") as bar:
        return read_counters(
            path,
            engine=engine,
            kind=kind.value if kind else None,
            draft_tokens=draft_tokens,
            num_steps=num_steps,
            each=lambda done: bar.update("reading", f"{done >> 20} of {size >> 20} MiB"),
        )


def _from_run(box: str, run: str, engine: str | None, growing: bool, draft_tokens: int | None) -> Iterator[Counters]:
    from helpers.acceptance.sources import follow, read_log
    from helpers.box import connect
    from helpers.serving import get_run

    with connect(box) as target:
        found = get_run(target, run)
        engine = engine or f"sglang=={found.profile.engine_release}"
        lines = found.logs(follow=growing)
        if growing:
            yield from follow(lines, engine=engine, draft_tokens=draft_tokens)
        else:
            yield read_log(lines, engine=engine, draft_tokens=draft_tokens)


def _short(found: Counters) -> str:
    length = "not told" if found.accept_length is None else f"{found.accept_length:.3f}"
    rate = "not told" if found.accept_rate is None else f"{found.accept_rate:.3f}"
    return f"{found.n.lines:>6} lines   accept length {length}   accept rate {rate}"
