"""What the arms of a check gave, as plain values: rows, loops, and what was held against what, paired by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.lab_check.arms import ARMS
from helpers.lab_check.claims import SHARES, claims

if TYPE_CHECKING:
    from helpers.acceptance.load_records import Load
    from helpers.serving.profile import Profile

LOOP_TAIL, LOOP_PERIOD = 40, 20


def loops(ids: Sequence[int]) -> bool:
    """Whether a text ends in a loop: its last 40 tokens have a period of 20 or less.

    >>> loops(list(range(30)) + [1, 2, 3] * 20), loops(range(64))
    (True, False)
    """
    tail = list(ids[-LOOP_TAIL:])
    return len(tail) == LOOP_TAIL and any(tail[period:] == tail[:-period] for period in range(1, LOOP_PERIOD + 1))


def report(
    loads: Mapping[str, Load],
    profiles: Mapping[str, Profile],
    *,
    of: Mapping[str, Any] | None = None,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """The table and the claims, as plain values.

    Args:
        loads: by arm, the baseline among them. of: what was served, by its hashes (helpers/lab_check/command.py).
        missing: arms that were asked for and have no answers.
    """
    from helpers.acceptance import compare, measurement

    baseline, right = loads["baseline"], loads.get("right")
    # A text that is too short for a loop is none that does not loop.
    looping = [loops(a.output_ids) if len(a.output_ids) >= LOOP_TAIL else None for a in baseline.answers]
    rows: dict[str, Any] = {}
    for name, load in loads.items():
        row = measurement(profiles[ARMS[name][0]], load, baseline).model_dump(mode="json") | {"name": name}
        rows[name] = row | {"loop_free": loop_free(load, [looped is False for looped in looping])}
    found: dict[str, Any] = {
        "of": None if of is None else dict(of),
        "missing": list(missing),
        "loops": looping.count(True),
        "texts": len(looping) - looping.count(None),
        "rows": rows,
        "against_right": {},
        "shares": {},
        "mirror": None,
    }
    if right is not None:
        # Read like a paired difference of rates: what one prompt does to both sides cancels out.
        others = [name for name in loads if name not in ("baseline", "right")]
        found["against_right"] = {
            name: compare("right", right, name, loads[name]).model_dump(mode="json") for name in others
        }
        found["shares"] = {name: excess(loads[name], right, SHARES[name][0]) for name in others if name in SHARES}
    config, trained = "mirror, by its config", "mirror, as trained"
    if config in loads and trained in loads:
        found["mirror"] = compare(trained, loads[trained], config, loads[config]).model_dump(mode="json")
    return found | {"claims": [{"text": c.text, "holds": c.holds} for c in claims(found)]}


def excess(load: Load, right: Load, share: float) -> dict[str, Any]:
    """Accept rate less a share of right's, paired over prompts: {share, excess, ci95, requests}.

    At or below 0 the arm is accepted at most that share as often. Both answered the same prompts in the same order.
    """
    from helpers.acceptance.intervals import paired_difference

    (correct, proposed), (rights, of) = _counts(load), _counts(right)
    difference, interval = paired_difference((correct, proposed), ([share * count for count in rights], of))
    return {"share": share, "excess": difference, "ci95": list(interval), "requests": len(correct)}


def loop_free(load: Load, free: Sequence[bool]) -> dict[str, Any] | None:
    """Accept rate over the prompts whose text does not loop: {rate, ci95, requests}; None without speculation."""
    from helpers.acceptance.intervals import ratio_interval

    kept = [a.counters for a, keep in zip(load.answers, free, strict=True) if keep and a.counters is not None]
    if not kept:
        return None
    correct, proposed = [float(c.correct) for c in kept], [float(c.proposed) for c in kept]
    rate = sum(correct) / sum(proposed)
    return {"rate": rate, "ci95": list(ratio_interval(correct, proposed)), "requests": len(kept)}


def _counts(load: Load) -> tuple[list[float], list[float]]:
    """Correct and proposed drafts of each request."""
    return [float(c.correct) for c in load.counters], [float(c.proposed) for c in load.counters]
