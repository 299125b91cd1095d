"""Measurements as tidy tables, ready for `helpers.figures.acceptance` and for reading in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from helpers.acceptance.measurement import Measurement

if TYPE_CHECKING:
    import pandas as pd


def survival_rows(rows: Iterable[Measurement]) -> pd.DataFrame:
    """S(k) of each configuration: columns ``profile``, ``k``, ``survival``, ``low``, ``high``."""
    import pandas as pd

    table = [
        (row.name, k, value, *interval)
        for row in rows
        if row.survival is not None and row.survival_ci95 is not None
        for k, (value, interval) in enumerate(zip(row.survival, row.survival_ci95, strict=True), start=1)
    ]
    return pd.DataFrame(table, columns=["profile", "k", "survival", "low", "high"])


def rate_rows(rows: Iterable[Measurement]) -> pd.DataFrame:
    """Accept rate of each configuration: columns ``profile``, ``accept_rate``, ``low``, ``high``."""
    import pandas as pd

    table = [
        (row.name, row.accept_rate, *row.ci95) for row in rows if row.accept_rate is not None and row.ci95 is not None
    ]
    return pd.DataFrame(table, columns=["profile", "accept_rate", "low", "high"])
