"""A bench for people: a line a server, then each candidate against the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.acceptance.bench_result import Bench
from helpers.acceptance.load_records import Failure
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.versus import Difference, Versus


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Columns of equal width; the first `left` to the left, the rest, figures, to the right.

    >>> table([["name", "n"], ["right", "12"]])
    ['name    n', 'right  12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def bench_text(found: Bench) -> str:
    """The figures, what was compared, and what is missing."""
    head = ["profile", "ids", "accept rate [95%]", "length", "steps", "tok/s [95%]", "first token", "a step", "answers"]
    lines = table([head, *(_row(arm) for arm in found.arms)], left=2)
    if found.settings.concurrency > 1:
        lines.append(f"{found.settings.concurrency} requests in flight; a step is seconds per step of one request")
    lines += ["", *(line for one in found.versus for line in versus_text(one))] if found.versus else []
    lines += [f"note: {warning}" for warning in found.warnings]
    if found.partial:
        lines.append(f"PARTIAL: {found.answered} of {found.asked} requests have an answer")
        lines += cause_text(found.failure) if found.failure is not None else []
        lines.append(f"go on with the same command and --out {found.folder}")
    return "\n".join([*lines, f"rows and summary: {found.folder}"])


def _row(arm: Measurement) -> list[str]:
    rate = "-" if arm.accept_rate is None or arm.ci95 is None else f"{arm.accept_rate:.3f} {_interval(arm.ci95, 3)}"
    speed = f"{arm.tokens_per_s:.1f}"
    speed += "" if arm.tokens_per_s_ci95 is None else f" {_interval(arm.tokens_per_s_ci95, 1)}"
    return [
        arm.name,
        "-" if arm.aux_layer_ids is None else ",".join(map(str, arm.aux_layer_ids)),
        rate,
        "-" if arm.accept_length is None else f"{arm.accept_length:.2f}",
        "-" if arm.verify_steps is None else str(arm.verify_steps),
        speed,
        _ms(arm.first_token_s),
        _ms(arm.step_s),
        str(arm.requests) if arm.requests == arm.asked else f"{arm.requests} of {arm.asked}",
    ]


def versus_text(one: Versus) -> list[str]:
    """One comparison in words."""
    said = f"{one.candidate} against {one.baseline}:"
    if one.speed is not None:
        pairs = f", {one.speed.pairs} pairs" if one.speed.pairs > 1 else ""
        pairs += ", one start" if one.starts == 1 else ""
        said += f" speed x {one.speed.ratio:.3f} {_interval(one.speed.ci95, 3)} ({one.speed.prompts} prompts{pairs})"
    if one.accept_rate is not None:
        said += f"; accept rate {one.accept_rate.difference:+.3f} {_interval(one.accept_rate.ci95, 3, '+')}"
    if one.rates_apart is not None:
        said += f"; accept rates not compared: {one.rates_apart}"
    if one.break_even is not None:
        said += f"; break-even accept length {one.break_even}"
    if one.greedy_equal is not None:
        equal = "equal" if one.greedy_equal else f"{one.differing} of {one.compared} DIFFERENT"
        said += f"; greedy texts {equal}"
    return [said, *([f"  first: {difference_text(one.first)}"] if one.first is not None else [])]


def difference_text(met: Difference) -> str:
    """Where two texts part."""
    if met.token is not None:
        place = f"new token {met.token} is {met.got}, the baseline's {met.wanted}"
    else:
        place = f"character {met.character}"
    return f"{met.prompt}, {place}: {met.got_text!r} against {met.wanted_text!r}"


def cause_text(failure: Failure) -> list[str]:
    """A failure as an error is shown."""
    lines = [f"cause: {failure.code}: {failure.message}", *(f"  | {line}" for line in failure.lines)]
    return [*lines, *([f"  next: {failure.next}"] if failure.next else [])]


def _interval(bounds: tuple[float, float], digits: int, sign: str = "") -> str:
    return f"[{bounds[0]:{sign}.{digits}f}, {bounds[1]:{sign}.{digits}f}]"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"
