"""Whether speculation wins against plain decoding: one rule, for every sentence that says so.

It wins or loses only where an interval excludes that both are equal: that of its speed (over prompts) the baseline's
speed, with the baseline's own interval where it has one, and that of the break-even (over starts of the servers) its
accept length. Where both are known, both have to say the same; where none is, nothing is decided. Nor is anything by
one start: no interval over prompts knows what another start of the same servers changes.
"""

from __future__ import annotations

from typing import Literal

from helpers.acceptance.breaking_even import below_one, side_of

Interval = tuple[float, float]
Outcome = Literal["wins", "loses", "undecided", "contradicts"]

#: Said of the outcome ``undecided``, in the same words everywhere.
UNDECIDED = "not decided by these measurements"


def undecided(starts: int | None) -> str:
    """The same, with the reason where it is that of one start.

    >>> undecided(1), undecided(None)
    ('not decided by these measurements (one start)', 'not decided by these measurements')
    """
    return f"{UNDECIDED} (one start)" if starts == 1 else UNDECIDED


def outcome(
    accept_length: float,
    break_even: float,
    *,
    baseline: float,
    baseline_ci95: Interval | None = None,
    speed: Interval | None = None,
    starts: int | None = None,
    over_starts: Interval | None = None,
) -> Outcome:
    """What the measurements show; ``contradicts`` where a verify step was faster than a plain one, which cannot be.

    Args:
        accept_length: tokens a verify step. break_even: as many as it needs.
        baseline: tokens/s without speculation; baseline_ci95: its 95% interval. speed: that of the tokens/s with it; an
            interval without width is none.
        starts: of the servers behind these figures, the fewest of one; None where that is not known.
        over_starts: 95% interval of the break-even.

    >>> outcome(1.70, 1.68, baseline=54.9, speed=(45.0, 72.1))
    'undecided'
    >>> outcome(1.70, 1.62, baseline=50.5, baseline_ci95=(48.0, 53.0), speed=(50.9, 53.0))
    'undecided'
    >>> outcome(2.9, 2.5, baseline=40.0, speed=(45.0, 52.0), starts=1)
    'undecided'
    >>> outcome(2.9, 2.5, baseline=40.0, speed=(45.0, 52.0), over_starts=(2.3, 2.7))
    'wins'
    """
    if below_one(over_starts or (break_even, break_even)):
        return "contradicts"
    if starts == 1:
        return "undecided"
    told: set[Outcome] = set()
    if speed is not None and speed[0] < speed[1]:
        low, high = baseline_ci95 or (baseline, baseline)
        told.add("wins" if speed[0] > high else "loses" if speed[1] < low else "undecided")
    if over_starts is not None:
        side = side_of(accept_length, over_starts)
        told.add("wins" if side == "above" else "loses" if side == "below" else "undecided")
    return told.pop() if len(told) == 1 else "undecided"
