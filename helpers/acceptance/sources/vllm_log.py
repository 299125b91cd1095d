"""vLLM's ``SpecDecoding metrics`` lines: one every ten seconds or so, with the interval's counts.

Public formats: https://github.com/vllm-project/vllm/pull/15902 (first), /pull/16665 (mean length and positions),
/pull/24127 (throughputs). The counts in a line are of its interval, so they add up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from helpers.acceptance.sources.definition import Printed
from helpers.errors import WrongResult

_RATE = re.compile(r"[Dd]raft acceptance rate:\s*(\d+(?:\.\d+)?)%")
_LENGTH = re.compile(r"Mean acceptance length:\s*(\d+\.\d+)")
_ACCEPTED = re.compile(r"Accepted:\s*(\d+)\s*tokens\b")
_DRAFTED = re.compile(r"Drafted:\s*(\d+)\s*tokens\b")
_POSITIONS = re.compile(r"Per-position acceptance rate:\s*((?:\d\.\d+)(?:,\s*\d\.\d+)*)\s*(?:,|$)")
_WRITER = re.compile(r"\((\w+(?:_DP\d+)?) pid=\d+\)|\b(Engine \d+):")
_TIME = re.compile(r"\b(\d\d-\d\d \d\d:\d\d:\d\d)\b")


@dataclass(frozen=True)
class VllmLine:
    """One interval's counts.

    Attributes:
        server: the process that wrote the line.
        steps: verify steps; None where drafts were of unequal length or the line is too old to tell.
        survival: S(1)..S(k) of the interval, rounded to three decimals; empty in old lines.
        accept_length: as it was printed; None in old lines.
    """

    server: str
    time: str | None
    accepted: int
    drafted: int
    steps: int | None
    survival: tuple[float, ...]
    accept_length: Printed | None


def parse(text: str, number: int = 0) -> VllmLine | None:
    """The counts in a ``SpecDecoding metrics`` line; None where it is cut.

    Args:
        number: the line's, for messages.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when its figures contradict each other.

    >>> parse("SpecDecoding metrics: Mean acceptance length: 2.00, Accepted: 10 tokens, Drafted: 20 tokens, "
    ...       "Per-position acceptance rate: 0.700, 0.300, Avg Draft acceptance rate: 50.0%").steps
    10
    """
    body = text.partition("SpecDecoding metrics:")[2]
    accepted, drafted, rate = _ACCEPTED.search(body), _DRAFTED.search(body), _RATE.search(body)
    length, positions = _LENGTH.search(body), _POSITIONS.search(body.rstrip())
    if accepted is None or drafted is None or rate is None:
        return None
    if (length is None) != (positions is None):
        return None
    right, proposed = int(accepted[1]), int(drafted[1])
    if right > proposed:
        raise _contradict(number, "accepted tokens are at most drafted tokens", f"{right} against {proposed}")
    said = Printed.of(rate[1])
    if proposed and abs(100 * right / proposed - said.value) > said.half + 1e-9:
        raise _contradict(number, "acceptance rate = accepted / drafted", f"{right}/{proposed} against {said.value:g}%")
    survival = tuple(float(part) for part in positions[1].split(",")) if positions else ()
    mean = Printed.of(length[1]) if length else None
    writer, time = _WRITER.search(text), _TIME.search(text)
    return VllmLine(
        server=next((part for part in writer.groups() if part), "") if writer else "",
        time=time[1] if time else None,
        accepted=right,
        drafted=proposed,
        steps=_steps(right, proposed, mean, survival, number),
        survival=survival,
        accept_length=mean,
    )


def _steps(right: int, proposed: int, mean: Printed | None, survival: tuple[float, ...], number: int) -> int | None:
    """Verify steps of the interval, where the figures leave one number only."""
    if mean is None or not survival:
        return None
    rounding = 0.0005 * len(survival) + mean.half + 1e-9
    if abs(sum(survival) - (mean.value - 1)) > rounding:
        raise _contradict(
            number,
            "mean acceptance length = 1 + sum of the acceptance rates by position",
            f"{mean.value:g} against {1 + sum(survival):.3f}",
        )
    steps, rest = divmod(proposed, len(survival))
    if rest == 0 and steps and abs(1 + right / steps - mean.value) <= mean.half + 1e-9:
        return steps
    low, high = mean.value - 1 - mean.half, mean.value - 1 + mean.half
    if low <= 0:
        return None
    fitting = range(-int(-right / high // 1), int(right / low) + 1)
    if not fitting:
        raise _contradict(
            number,
            "mean acceptance length = 1 + accepted / a whole number of verify steps",
            f"{mean.value:g} with {right} accepted",
        )
    return fitting[0] if len(fitting) == 1 else None


def _contradict(number: int, identity: str, met: str) -> WrongResult:
    return WrongResult(
        "WB-COUNTERS-CONTRADICT",
        f"line {number}: the server's figures contradict each other: {identity} gives {met}",
        expected=f"identity: {identity}",
        next="keep the log; do not use its rates",
    )
