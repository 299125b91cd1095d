"""What figures of speed show: whether speculation pays, and what it would need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.figures.said.phrasing import listed, rows_of, span, steps

if TYPE_CHECKING:
    import pandas as pd

    from helpers.acceptance.outcome import Outcome

OUTCOMES = {
    "wins": "pays",
    "loses": "does not pay",
    "undecided": "may pay or not, which is not decided by these measurements",
    "contradicts": "may pay or not, which is not decided by these measurements",
}


def forecast(rows: pd.DataFrame, *, baseline: float, num_steps: int | None = None, measured: Sequence[int] = ()) -> str:
    """The speed at the number of draft steps that was served, and what the other points rest on.

    Args:
        rows: as `helpers.acceptance.tables.prediction_rows` gives.
        baseline: tokens/s without speculation. num_steps: as served; where that is not known, the first and the last
            point are told. measured: the numbers of steps with a step time; nothing is said of them where none is told.
    """
    if num_steps is None:
        points = rows_of(rows.sort_values("num_steps"))
        ends = [points[0], *points[1:][-1:]]
        each = [f"{span(row, 'tokens_per_s', '.1f')} with {steps(row['num_steps'])}" for row in ends]
        return f"Predicted are {listed(each)}, in tok/s, against {baseline:.1f} without speculation."
    at = next(row for row in rows_of(rows) if row["num_steps"] == num_steps)
    found = _outcome(at, baseline)
    speed = f"{at['tokens_per_s']:.1f} tok/s" + (
        f" [{at['low']:.1f}, {at['high']:.1f}]" if at["low"] < at["high"] else ""
    )
    text = (
        f"At {steps(num_steps)}, as served, speculation {OUTCOMES[found]}{_why(found, at)}: {speed} against "
        f"{baseline:.1f} without; it has {at['accept_length']:.2f} tokens a verify step"
    )
    if found == "contradicts":
        from helpers.acceptance.breaking_even import CONTRADICT

        return f"{text}; {CONTRADICT}. The other points rest on these times, too."
    text += f" and needs {_needed(at)}."
    if not measured:
        return text
    if len(set(measured)) > 1:
        return f"{text} Step times were measured at {listed([str(k) for k in sorted(set(measured))])} draft steps."
    return (
        f"{text} One number of draft steps was measured, so what a draft step costs is assumed: the other points show "
        "what that assumption gives, and which of them is best is not known."
    )


def _outcome(at: Mapping[str, Any], baseline: float) -> Outcome:
    """By the rule that the speed model's own sentences follow."""
    from helpers.acceptance.outcome import outcome

    return outcome(
        at["accept_length"],
        at["break_even"],
        baseline=baseline,
        baseline_ci95=_interval(at, "baseline"),
        speed=(at["low"], at["high"]),
        starts=_starts(at),
        over_starts=_over_starts(at),
    )


def _why(found: Outcome, at: Mapping[str, Any]) -> str:
    return " (one start)" if found == "undecided" and _starts(at) == 1 else ""


def _starts(at: Mapping[str, Any]) -> int | None:
    import pandas as pd

    starts = at.get("starts")
    return int(starts) if starts is not None and pd.notna(starts) else None


def _needed(at: Mapping[str, Any]) -> str:
    """The break-even, with its interval over starts where the table has one."""
    from helpers.acceptance.breaking_even import ONCE

    over, starts = _over_starts(at), _starts(at)
    if over is not None:
        return f"{at['break_even']:.2f} [{over[0]:.2f}, {over[1]:.2f}] (95% over {starts} starts)"
    return f"{at['break_even']:.2f}" + (f" ({ONCE})" if starts == 1 else "")


def _over_starts(at: Mapping[str, Any]) -> tuple[float, float] | None:
    return _interval(at, "break_even")


def _interval(at: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """``NAME_low`` and ``NAME_high`` of a row; None where it has none."""
    import pandas as pd

    low, high = at.get(f"{name}_low"), at.get(f"{name}_high")
    return (float(low), float(high)) if low is not None and high is not None and pd.notna(low) else None


def throughput(
    rows: pd.DataFrame,
    *,
    baseline: float,
    step_seconds: Mapping[int, float],
    baseline_ci95: tuple[float, float] | None = None,
) -> str:
    """Of each configuration whether its speed is apart from the baseline, and the accept length that it would need.

    Args:
        rows: columns ``profile``, ``num_steps``, ``accept_length``, ``tokens_per_s``, ``low``, ``high``, and ``starts``
            where it is known.
        baseline: tokens/s without speculation; baseline_ci95: its 95% interval. step_seconds: seconds of a verify step
            by num_steps.
    """
    from helpers.acceptance.breaking_even import CONTRADICT
    from helpers.acceptance.outcome import outcome

    told = []
    for row in rows_of(rows):
        needed = baseline * step_seconds[row["num_steps"]] if row["num_steps"] in step_seconds else None
        found = outcome(
            row["accept_length"],
            1.0 if needed is None else needed,
            baseline=baseline,
            baseline_ci95=baseline_ci95,
            speed=(row["low"], row["high"]),
            starts=_starts(row),
        )
        side = {"wins": "faster than", "loses": "slower than"}.get(found, "not told from")
        text = f"{row['profile']} with {steps(row['num_steps'])} is {side} no speculation{_why(found, row)}: "
        text += f"{span(row, 'tokens_per_s', '.1f')} tok/s, accept length {row['accept_length']:.2f}"
        if needed is not None:
            text += f"; {CONTRADICT}" if found == "contradicts" else f" and {needed:.2f} needed"
        told.append(text)
    return "; ".join([f"No speculation gives {baseline:.1f} tok/s", *told]) + "."
