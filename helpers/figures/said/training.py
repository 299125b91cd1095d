"""What curves of a training show: where each begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def training(rows: pd.DataFrame, *, stages: Sequence[str], columns: Sequence[str], y: str) -> str:
    """The first and the last value of each curve.

    Args:
        rows: columns ``stage``, ``step`` and those of `columns`. y: what the values are.
    """
    told = []
    for stage in stages:
        for column in columns:
            points = rows[rows["stage"] == stage].dropna(subset=[column]).sort_values("step")
            if len(points):
                first, last = points.iloc[0], points.iloc[-1]
                name = column if len(stages) == 1 else f"{stage}, {column}"
                told.append(
                    f"{name}, from {first[column]:.3f} at step {first['step']:.0f} to {last[column]:.3f} at step "
                    f"{last['step']:.0f}"
                )
    # The unit, often "nats a token", has no colon after it: "token: ..." is what a secret looks like to a report.
    return f"Curves of {y}, first and last point: {'; '.join(told)}." if told else "Nothing was measured."
