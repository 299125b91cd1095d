"""What one configuration gave under load: the row of a report, with n and intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.breaking_even import Pass
from helpers.acceptance.counters import pool
from helpers.acceptance.differences import PairedDifference as PairedDifference
from helpers.acceptance.differences import compare as compare
from helpers.acceptance.differences import paired as paired
from helpers.acceptance.intervals import ratio_interval
from helpers.acceptance.load_records import Load, first_difference
from helpers.acceptance.load_settings import LoadSettings
from helpers.acceptance.past_end import PastEnd, past_end
from helpers.acceptance.per_prompt import Sums, per_prompt
from helpers.serving.profile import Profile

#: Said of a tree's accept rate, wherever it would stand beside a chain's.
TREE = (
    "{drafts} drafts a verify step are a tree, of which at most {depth} can be accepted: its accept rate is no chain's"
)


class Measurement(BaseModel):
    """One profile's acceptance and speed. Acceptance fields are None without speculation, and where the endpoint tells
    no counters. All intervals are 95%, by bootstrap over prompts.

    Attributes:
        dtype: what it was served in; texts and rates are compared within one dtype.
        boundaries: the taps that the ids mean on this engine, in slot order.
        accept_rate: correct drafts / proposed drafts, pooled over all requests. ci95: its interval.
        survival: ``survival[i]`` is S(i + 1); survival_ci95 its intervals.
        verify_steps: n of the rates. proposed: drafts that were proposed in them; with topk > 1 the whole tree's.
        requests: answers that came to their end. asked: how many there were to be.
        prompts: how many different prompts they are to: what intervals draw, and what a verdict counts. Answers to one
            prompt, of several seeds or passes, are one. None in rows of an earlier version.
        tokens_per_s: new tokens per second in which requests were in flight, prefill included (with one at a time: of
            request time). tokens_per_s_ci95: its interval at this many in flight.
        greedy_equal: every greedy text equals the baseline's; None where there is no baseline, or nothing was greedy.
        first_difference: (request, token) where a text first differs from the baseline's.
        concurrency: requests kept in flight; running: how many there were, as a mean.
        first_token_s, first_token_p95_s: median and 95th percentile over requests, in seconds.
        inter_token_s: median seconds between new tokens (a chunk's gap is spread over its tokens).
        step_s: seconds per verify step (per token without speculation) after the first token, at ``running`` requests;
            what the speed model takes. decode_steps: its n.
        passes: how often the prompts were asked, and servers started for it. by_pass: the step times of each, where a
            bench wrote them down; the break-even is told by them, start by start.
        settings: how it was asked; None where that is not known, or passes were asked in different ways.
        patches: that were in the engine's source: of the runs, ``name@hash``, else those that the profile asks for;
            None where nobody knows.
        past_end: what of the answers lies after an end-of-text; None where that is not known.
        run: the run's id; of several (passes, a load that went on after a cut) all, with commas.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    dtype: str
    aux_layer_ids: list[int] | None
    boundaries: list[int] | None
    accept_length: float | None = None
    accept_rate: float | None = None
    ci95: tuple[float, float] | None = None
    survival: list[float] | None = None
    survival_ci95: list[tuple[float, float]] | None = None
    histogram: list[int] | None = None
    verify_steps: int | None = None
    proposed: int | None = None
    requests: int
    prompts: int | None = None
    tokens_per_s: float
    tokens_per_s_ci95: tuple[float, float] | None = None
    greedy_equal: bool | None
    first_difference: tuple[str, int] | None
    run: str | None = None
    asked: int | None = None
    tokens: int | None = None
    concurrency: int = 1
    running: float | None = None
    first_token_s: float | None = None
    first_token_p95_s: float | None = None
    inter_token_s: float | None = None
    step_s: float | None = None
    step_s_ci95: tuple[float, float] | None = None
    decode_steps: int | None = None
    passes: int = 1
    by_pass: tuple[Pass, ...] = ()
    patches: list[str] | None = None
    settings: LoadSettings | None = None
    past_end: PastEnd | None = None

    @property
    def runs(self) -> list[str]:
        """The runs' ids, the newest last."""
        return self.run.split(", ") if self.run else []

    @property
    def starts(self) -> int | None:
        """Starts of a server that asked all prompts, as far as runs are known: a load that was cut has more runs."""
        return min(len(set(self.runs)), self.passes) or None

    @property
    def units(self) -> int:
        """Prompts that intervals draw; where they were not counted, the answers of one pass, the most there can be."""
        return -(-self.requests // self.passes) if self.prompts is None else self.prompts

    @property
    def drafts_per_step(self) -> float | None:
        """Proposed drafts a verify step: N - 1; None where it is not known."""
        return self.proposed / self.verify_steps if self.proposed and self.verify_steps else None

    @property
    def tree(self) -> str | None:
        """Of a tree, what its accept rate is not; None of a chain, and where it is not known."""
        drafts, depth = self.drafts_per_step, len(self.survival or ())
        if drafts is None or not depth or drafts <= depth:
            return None
        return TREE.format(drafts=f"{drafts:g}", depth=depth)


def measurement(
    profile: Profile,
    load: Load | Sequence[Load],
    baseline: Load | None = None,
    *,
    boundaries: Sequence[int] | None = None,
    run: str | None = None,
    patches: Sequence[str] | None = None,
    eos: Sequence[int] = (),
) -> Measurement:
    """Turns a load's answers into the row of a report.

    Args:
        profile: what was served; its draft steps decide how long ``survival`` is.
        load: its answers; several loads (passes, restarts) are pooled. At least one answer between them.
        baseline: the same prompts without speculation; the greedy texts are compared with it.
        boundaries: what the profile's ids tap on its engine, in slot order.
        run: id of the server's run. patches: that were in when it was started; else those of the profile.
        eos: ids of the model's end-of-text; answers that go on after one are counted.

    Raises:
        WrongResult: WB-COUNTERS-CONTRADICT, where counters do not fit the profile's draft steps.
    """
    loads = [load] if isinstance(load, Load) else list(load)
    difference = None
    if baseline is not None:
        difference = next((met for one in loads if (met := first_difference(one, baseline)) is not None), None)
    sums = list(per_prompt(loads).values())
    return Measurement(
        name=profile.name,
        dtype=profile.dtype,
        aux_layer_ids=None if profile.aux_layer_ids is None else list(profile.aux_layer_ids),
        boundaries=None if boundaries is None else list(boundaries),
        requests=sum(len(one.answers) for one in loads),
        prompts=len(sums),
        asked=sum(len(one.answers) if one.asked is None else one.asked for one in loads),
        greedy_equal=None if baseline is None else difference is None,
        first_difference=difference,
        run=run,
        concurrency=loads[0].concurrency,
        passes=len(loads),
        settings=loads[0].settings if all(one.settings == loads[0].settings for one in loads) else None,
        patches=list(profile.patches if patches is None else patches),
        past_end=past_end(loads, eos),
        **_speed(profile, loads, sums),
        **_acceptance(profile, loads, sums),
    )


def _speed(profile: Profile, loads: Sequence[Load], sums: Sequence[Sums]) -> dict[str, Any]:
    tokens, busy = sum(one.tokens for one in sums), sum(load.busy_s for load in loads)
    seconds = sum(one.seconds for one in sums)
    running = seconds / busy
    low, high = ratio_interval([float(one.tokens) for one in sums], [one.seconds for one in sums])
    streamed = [a for load in loads for a in load.answers if a.first_token_s is not None]
    firsts = [a.first_token_s for a in streamed if a.first_token_s is not None]
    gaps = [gap for a in streamed for gap in a.inter_token_s]
    found: dict[str, Any] = {
        "tokens": tokens,
        "tokens_per_s": tokens / busy,
        "tokens_per_s_ci95": (low * running, high * running),
        "running": running,
        "first_token_s": statistics.median(firsts) if firsts else None,
        "first_token_p95_s": statistics.quantiles(firsts, n=20, method="inclusive")[-1] if len(firsts) > 1 else None,
        "inter_token_s": statistics.median(gaps) if gaps else None,
    }
    steps = [one for one in sums if one.decode_steps]
    # A server that speculates, and tells no counters: its tokens are no steps.
    untold = profile.speculation is not None and not all(a.counters for a in streamed)
    if steps and not untold:
        took, many = [one.decode_s for one in steps], [float(one.decode_steps) for one in steps]
        found |= {"step_s": sum(took) / sum(many), "step_s_ci95": ratio_interval(took, many)}
        found["decode_steps"] = int(sum(many))
    return found


def _acceptance(profile: Profile, loads: Sequence[Load], sums: Sequence[Sums]) -> dict[str, Any]:
    rows = [counters for load in loads for counters in load.counters]
    if profile.speculation is None or not rows:
        return {}
    num_steps = profile.speculation.num_steps
    pooled = pool(rows, num_steps=num_steps)
    counted = [one for one in sums if one.verify_steps]
    steps = [float(one.verify_steps) for one in counted]
    reached = [[float(one.at_least(k)) for one in counted] for k in range(1, num_steps + 1)]
    return {
        "accept_length": pooled.accept_length,
        "accept_rate": pooled.accept_rate,
        "ci95": ratio_interval([float(one.correct) for one in counted], [float(one.proposed) for one in counted]),
        "survival": list(pooled.survival),
        "survival_ci95": [ratio_interval(at_least, steps) for at_least in reached],
        "histogram": list(pooled.histogram),
        "verify_steps": pooled.verify_steps,
        "proposed": pooled.proposed,
    }
