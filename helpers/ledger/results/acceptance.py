"""Measured acceptance and speed as evidence."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from helpers.ledger.results.base import BOOTSTRAP, Summary, names_of, reader, saved

if TYPE_CHECKING:
    from helpers.acceptance.bench_result import Bench
    from helpers.acceptance.measurement import Measurement, PairedDifference
    from helpers.acceptance.sweep_results import Sweep
    from helpers.acceptance.versus import Versus


@reader("helpers.acceptance.measurement.Measurement")
def measurement(result: Measurement) -> Summary:
    """One configuration under load."""
    if result.accept_rate is None or result.ci95 is None:
        said = f"{result.tokens_per_s:.1f} tokens/s without speculation"
    else:
        low, high = result.ci95
        said = f"accept rate {result.accept_rate:.3f} [{low:.3f}, {high:.3f}], accept length {result.accept_length:.2f}"
        said += f", {result.tokens_per_s:.1f} tokens/s"
    said += "" if result.greedy_equal is not False else "; greedy text DIFFERS from the baseline's"
    said += f"; {result.past_end}" if result.past_end is not None and result.past_end.answers else ""
    settings: dict[str, Any] = {
        "aux_layer_ids": result.aux_layer_ids,
        "boundaries": result.boundaries,
        "dtype": result.dtype,
    }
    settings |= {} if result.patches is None else {"patches": names_of(result.patches)}
    return Summary(
        source="measurement",
        title=f"acceptance of {result.name}",
        summary=said,
        values=result.model_dump(mode="json"),
        run=result.run,
        profile=result.name,
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.verify_steps if result.verify_steps is not None else result.requests,
        unit="verify steps" if result.verify_steps is not None else "requests",
        patches=tuple(result.patches or ()),
        config={result.name: settings},
        command=again(result),
    )


def again(result: Measurement) -> str:
    """How to measure it again. PROMPTS and PROFILES stand for files that a measurement does not know."""
    asked = result.asked if result.asked is not None else result.requests
    passes = len(result.by_pass) or result.passes  # of a cut load, also those that nothing answered
    if result.settings is not None:
        options, prompts = result.settings.options, asked // passes // len(result.settings.seeds)
    else:
        options = ["--new-tokens", str(result.tokens // result.requests)] if result.tokens and result.requests else []
        options += ["--concurrency", str(result.concurrency)] if result.concurrency > 1 else []
        prompts = result.prompts or asked // passes
    words = ["workbook", "bench", "BOX", result.name, "--pairs", str(passes), "--prompts", "PROMPTS"]
    return shlex.join([*words, "--profiles", "PROFILES", *options, "--limit", str(prompts)])


@reader("helpers.acceptance.differences.PairedDifference")
def difference(result: PairedDifference) -> Summary:
    """Two configurations, prompt by prompt."""
    return Summary(
        source="difference",
        title=f"acceptance of {result.first} minus {result.second}",
        summary=str(result),
        values=result.model_dump(mode="json"),
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.requests,
        unit="prompts",
    )


@reader("helpers.acceptance.versus.Versus")
def versus(result: Versus) -> Summary:
    """A candidate against the baseline: speed as a ratio, texts, acceptance."""
    said = []
    if result.speed is not None:
        low, high = result.speed.ci95
        once = " (one start: the interval is over prompts only)" if result.starts == 1 else ""
        said.append(f"{result.speed.ratio:.2f} [{low:.2f}, {high:.2f}] times the tokens/s{once}")
    if result.accept_rate is not None:
        said.append(difference(result.accept_rate).summary)
    if result.rates_apart is not None:
        said.append(f"accept rates are not compared: {result.rates_apart}")
    if result.break_even is not None:
        said.append(f"break-even accept length {result.break_even}")
    said.append(f"{result.differing} of {result.compared} texts differ")
    return Summary(
        source="difference",
        title=f"{result.candidate} against {result.baseline}",
        summary="; ".join(said),
        values=result.model_dump(mode="json"),
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.speed.prompts if result.speed is not None else result.compared,
        unit="prompts",
    )


@reader("helpers.acceptance.bench_result.Bench")
def bench(result: Bench) -> Summary:
    """All servers of a bench, and each candidate against the first."""
    arms = [measurement(arm) for arm in result.arms]
    config = {name: settings for arm in arms for name, settings in arm.config.items()}
    parts = [f"{arm.profile}: {arm.summary}" for arm in arms] + [versus(one).summary for one in result.versus]
    summary = result.folder / "summary.json"
    return Summary(
        source="bench",
        title="bench of " + ", ".join(arm.name for arm in result.arms),
        summary="; ".join([*parts, *(["answers are missing"] if result.partial else [])]),
        values={key: value for key, value in result.record().items() if key != "folder"},
        files=((summary, None),) if summary.is_file() else (),
        keep=() if summary.is_file() else (saved("bench.json", result.record()),),
        run=", ".join(arm.run for arm in result.arms if arm.run) or None,
        patches=tuple(dict.fromkeys(patch for arm in arms for patch in arm.patches)),
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.answered,
        unit="requests",
        config=config,
        command=result.command if result.arms else None,
    )


@reader("helpers.acceptance.sweep_results.Sweep")
def sweep(result: Sweep) -> Summary:
    """The finished points of a sweep."""
    file = result.folder / "results.jsonl"
    return Summary(
        source="sweep",
        title=f"sweep {result.folder.name}",
        summary=result.counts,
        values={"good": result.good, "missing": list(result.missing), "points": len(result.rows)},
        files=((file, None),) if file.is_file() else (),
        keep=() if file.is_file() else (saved("sweep.json", result.record()),),
        n=len(result.rows),
        unit="points",
    )
