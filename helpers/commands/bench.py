"""`workbook bench`: thin, a call into helpers/acceptance/bench_run and its result as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.commands.going_on import goes_on
from helpers.commands.output import AsJson, emit
from helpers.errors import RemoteFailed, UsageError
from helpers.nearest import did_you_mean
from helpers.paths import investigations_dir

if TYPE_CHECKING:
    from helpers.acceptance.arms import Arm
    from helpers.box import Box

Prompts = Annotated[
    Path, typer.Option(metavar="F", help='JSON lines of {"id", "input_ids"}, {"id", "text"} or {"id", "messages"}.')
]


def bench(
    context: typer.Context,
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs that live (id or profile's name); with --pairs, profiles to start"),
    ],
    prompts: Prompts,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Start each profile so often, one at a time, in the order A B B A.")
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Ask each running server so often, in the order A B B A.")] = 1,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the others are held against; else the one without a draft.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="generate|completions|chat", help="generate; chat where prompts are messages.")
    ] = None,
    new_tokens: Annotated[int, typer.Option(min=1, help="New tokens a request.")] = 64,
    natural_end: Annotated[bool, typer.Option("--natural-end", help="End at end-of-text; else it is ignored.")] = False,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy: texts are compared.")] = 0.0,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Of sampling.")] = 1.0,
    seed: Annotated[list[int] | None, typer.Option(help="Of sampling; several ask each prompt so often.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Requests kept in flight.")] = 1,
    warmup: Annotated[int, typer.Option(min=0, help="Requests thrown away before each pass.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many prompts.")] = None,
    stall: Annotated[float, typer.Option(min=1, help="Seconds of silence after which a server counts as hung.")] = 300,
    max_failures: Annotated[int, typer.Option(min=0, help="Go on past so many failed requests.")] = 0,
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file with profiles; default data/profiles/lab.toml")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="With --pairs: seconds to wait for a server; default its start_timeout.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New, or to go on in; default: a new one.")] = None,
    as_json: AsJson = False,
) -> int:
    """Measures acceptance and speed of servers, with 95% intervals, and holds them against a baseline.

    One RUN is measured by itself. Several that run beside each other are asked in turn; where only one server fits,
    --pairs starts and stops each profile in turn: workbook bench lab baseline right --pairs 2 --prompts F

    DIR gets a line a request as it is answered (requests.jsonl), and summary.json. The same command with --out DIR goes
    on where it was cut. Exit 4, and what there is, where a server dies, hangs, refuses, or cuts its answers short.
    """
    from helpers.acceptance.bench_run import bench as measure
    from helpers.acceptance.bench_text import bench_text
    from helpers.acceptance.load_settings import load_settings
    from helpers.acceptance.prompts import KINDS, read_prompts
    from helpers.box import connect

    asked = read_prompts(prompts, limit=limit, kinds=KINDS)
    settings = load_settings(
        endpoint=endpoint or ("chat" if asked[0].kind == "messages" else "generate"),
        max_new_tokens=new_tokens,
        natural_end=natural_end,
        temperature=temperature,
        top_p=top_p,
        seeds=tuple(seed) if seed else None,
        concurrency=concurrency,
        warmup=warmup,
        stall_s=stall,
        max_failures=max_failures,
    )
    with connect(box) as connected:
        arms = _arms(connected, runs, pairs, profiles, timeout)
        arms = _baseline_first(arms, baseline)
        folder = out or _folder([arm.name for arm in arms])
        with goes_on(context, folder):
            found = measure(arms, asked, settings, folder, passes=pairs or passes)
    result: dict[str, Any] = {"box": box, **found.record()}
    if found.partial and found.failure is not None:
        cause = found.failure
        error = RemoteFailed(
            cause.code, cause.message, expected=cause.expected, next=cause.next, lines=list(cause.lines)
        )
        result |= error.to_json()
    emit(result, as_json=as_json, text=bench_text(found))
    return RemoteFailed.exit_code if found.partial else 0


def _arms(box: Box, names: list[str], pairs: int | None, profiles: Path | None, timeout: float | None) -> list[Arm]:
    from helpers.acceptance.bench_run import running, started
    from helpers.serving import get_profile, get_run
    from helpers.serving.again import serve_again

    if pairs is not None:
        return [started(box, get_profile(name, profiles), timeout=timeout) for name in names]
    found: list[Arm] = []
    for name in names:
        run = get_run(box, name)
        if run.state != "alive":
            raise RemoteFailed(
                "WB-BENCH-NOT-RUNNING",
                f"run {run.id} on {box.name} is {run.state}",
                expected="a server that lives; with --pairs the profiles are started for it",
                next=serve_again(run),
            )
        found.append(running(box, run))
    return found


def _baseline_first(arms: list[Arm], baseline: str | None) -> list[Arm]:
    plain = [arm.name for arm in arms if arm.profile.speculation is None]
    name = baseline or (plain or [arms[0].name])[0]
    if name not in [arm.name for arm in arms]:
        raise UsageError(
            "WB-USAGE",
            f"--baseline {name!r} is none of the servers that are measured",
            expected="one of " + ", ".join(arm.name for arm in arms),
            next=did_you_mean(name, [arm.name for arm in arms], f"--baseline {arms[0].name}"),
        )
    return sorted(arms, key=lambda arm: arm.name != name)


def _folder(names: list[str]) -> Path:
    return investigations_dir() / "bench" / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{'-'.join(names)[:80]}"
