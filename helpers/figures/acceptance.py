"""Figures of acceptance: survival curves and accept rates per configuration, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import configurations
from helpers.figures.theme import band, dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def survival(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """S(k), the share of verify steps in which at least k drafts were accepted, per configuration.

    Args:
        rows: columns ``profile``, ``k`` (1..num_steps), ``survival``, ``low``, ``high`` (95% interval).
    """
    import plotly.graph_objects as go

    figure, styles = go.Figure(), configurations(rows["profile"])
    count = rows["profile"].nunique()
    for number, (profile, part) in enumerate(rows.groupby("profile", sort=False)):
        ordered = part.sort_values("k")
        # Side by side, so that equal curves do not hide each other.
        x = ordered["k"] + 0.04 * (number - (count - 1) / 2)
        style = styles[str(profile)]
        band(figure, x, ordered["low"], ordered["high"], colour=style.colour, group=str(profile))
        figure.add_scatter(
            x=x,
            y=ordered["survival"],
            name=str(profile),
            legendgroup=str(profile),
            mode="lines+markers",
            marker={"symbol": style.marker, "size": 8},
            hovertemplate="%{fullData.name}: %{y:.1%}<extra></extra>",
            line={"color": style.colour, "dash": style.dash},
        )
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1], tickformat=".0%")
    return dress(
        figure,
        title="Acceptance survival S(k), with 95% bands",
        x="k (drafts accepted in a verify step, at least)",
        y="share of verify steps",
        caption=caption,
        sentence=said.survival(rows),
    )


def accept_rates(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Accept rate of every configuration with its 95% interval.

    Args:
        rows: columns ``profile``, ``accept_rate``, ``low``, ``high``.
    """
    import plotly.graph_objects as go

    styles = configurations(rows["profile"])
    figure = go.Figure(
        go.Bar(
            x=rows["profile"],
            y=rows["accept_rate"],
            marker_color=[styles[str(name)].colour for name in rows["profile"]],
            text=[f"{v:.1%}" for v in rows["accept_rate"]],
            textposition="inside",
            insidetextanchor="start",  # at the foot, clear of the error bar
            textangle=0,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": rows["high"] - rows["accept_rate"],
                "arrayminus": rows["accept_rate"] - rows["low"],
            },
        )
    )
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return dress(
        figure,
        title="Accept rate per configuration, with 95% intervals",
        x="profile",
        y="correct drafts / proposed drafts",
        caption=caption,
        sentence=said.rates(rows),
    )
