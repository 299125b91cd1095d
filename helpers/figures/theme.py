"""One look for every figure: colours, fonts, margins, and where the caption stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figure_sentence import give_sentence

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

# Perceptually even, and readable in grey: for cosines, whose differences near 1 matter.
COSINE_SCALE = "Cividis"


def dress(
    figure: go.Figure, *, title: str, x: str, y: str, caption: str, sentence: str = "", height: int = 420
) -> go.Figure:
    """Adds title, axis titles with units, the caption that names run and capture, and the sentence for who sees none.

    Args:
        sentence: what the figure shows, as `helpers.figures.said` has it; the figure carries it undrawn.
    """
    give_sentence(figure, sentence)
    figure.update_layout(
        title={"text": title, "x": 0.01, "xanchor": "left", "font": {"size": 17}},
        xaxis_title=x,
        yaxis_title=y,
        template="plotly_white",
        font={"size": 13},
        height=height,
        margin={"l": 70, "r": 30, "t": 60, "b": 95},
    )
    figure.add_annotation(
        text=caption,
        xref="paper",
        yref="paper",
        x=0,
        y=0,
        yshift=-62,
        xanchor="left",
        yanchor="top",
        showarrow=False,
        font={"size": 11, "color": "#555"},
    )
    return figure


def band(figure: go.Figure, x: pd.Series, low: pd.Series, high: pd.Series, *, colour: str, group: str) -> None:
    """A pale band between two curves over the same ascending x, switched with its curve in the legend."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    figure.add_scatter(
        x=[*x, *reversed(list(x))],
        y=[*high, *reversed(list(low))],
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.16)",
        line={"width": 0},
        mode="lines",
        legendgroup=group,
        showlegend=False,
        hoverinfo="skip",
    )


def shade(cosine: float) -> tuple[str, str]:
    """Ground and ink of a cell that shows a cosine: `COSINE_SCALE` from 0 to 1, and black or white, whichever reads."""
    from plotly.colors import sample_colorscale

    ground = str(sample_colorscale(COSINE_SCALE, [min(1.0, max(0.0, cosine))])[0])
    red, green, blue = (float(part) for part in ground[4:-1].split(","))
    return ground, "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#fff"
