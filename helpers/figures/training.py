"""Curves of a training: losses and agreement by step, as the recipe's journal has them (``losses.jsonl``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import COLOURS, DASHES
from helpers.figures.theme import dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def training_curves(
    rows: pd.DataFrame, *, stages: Sequence[str], columns: Sequence[str], title: str, y: str, caption: str
) -> go.Figure:
    """A line for each stage and column, over the steps of the stage.

    Args:
        rows: columns ``stage``, ``step`` and those of `columns`; a value that a row lacks is NaN and left out, so that
            what is measured more rarely is drawn from its own points.
        y: the title of the axis, with the unit.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, stage in enumerate(stages):
        part = rows[rows["stage"] == stage]
        for place, column in enumerate(columns):
            measured = part.dropna(subset=[column])
            if measured.empty:
                continue
            name = column if len(stages) == 1 else f"{stage}, {column}"
            figure.add_scatter(
                x=measured["step"],
                y=measured[column],
                mode="lines" if len(measured) > 20 else "lines+markers",
                name=name,
                line={"color": COLOURS[number % len(COLOURS)], "dash": DASHES[place % len(DASHES)], "width": 2},
                hovertemplate=f"{name}: %{{y:.3f}} at step %{{x}}<extra></extra>",
            )
    words = said.training(rows, stages=stages, columns=columns, y=y)
    return dress(figure, title=title, x="step", y=y, caption=caption, sentence=words)
