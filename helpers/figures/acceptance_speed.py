"""Figures of speed: throughput against acceptance with the break-even line, and what the speed model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import COLOURS, DASHES, MARKERS, configurations
from helpers.figures.theme import dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def throughput_by_acceptance(
    rows: pd.DataFrame,
    *,
    baseline: float,
    step_seconds: Mapping[int, float],
    caption: str,
    baseline_ci95: tuple[float, float] | None = None,
) -> go.Figure:
    """Speed against accept length: a line for each number of draft steps, and the baseline that it has to cross.

    At a given step time speed is accept length / step time, a straight line from 1 (nothing accepted) to num_steps + 1
    (everything); where it crosses the baseline is the break-even accept length.

    Args:
        rows: columns ``profile``, ``num_steps``, ``accept_length``, ``tokens_per_s``, ``low``, ``high`` (95%
            interval of the speed), per request; ``starts`` of the server where that is known.
        baseline: tokens/s without speculation, with as many requests running. baseline_ci95: its 95% interval.
        step_seconds: seconds of a verify step by num_steps.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    widest = max(step_seconds, default=1) + 1
    figure.add_scatter(
        x=[1, widest],
        y=[baseline, baseline],
        mode="lines",
        name=f"no speculation, {baseline:.0f} tok/s",
        line={"color": "#000", "width": 2},
        hovertemplate="no speculation: %{y:.1f} tok/s<extra></extra>",
    )
    for number, (k, seconds) in enumerate(sorted(step_seconds.items())):
        colour, needed = COLOURS[number % len(COLOURS)], baseline * seconds
        label = f"{k} step{'' if k == 1 else 's'}, {seconds * 1e3:.1f} ms"
        figure.add_scatter(
            x=[1, k + 1],
            y=[1 / seconds, (k + 1) / seconds],
            mode="lines",
            name=f"{label} (needs {needed:.2f})" if needed <= k + 1 else f"{label} (cannot reach it)",
            line={"color": colour, "dash": DASHES[number % len(DASHES)], "width": 1.5},
            hovertemplate=f"{label}: %{{y:.1f}} tok/s at accept length %{{x:.2f}}<extra></extra>",
        )
        if 1 <= needed <= k + 1:
            figure.add_scatter(
                x=[needed],
                y=[baseline],
                mode="markers",
                marker={"symbol": "line-ns-open", "size": 16, "color": colour, "line": {"width": 3}},
                showlegend=False,
                hovertemplate=f"{label}: break-even accept length {needed:.2f}<extra></extra>",
            )
    order = {k: number for number, k in enumerate(sorted(step_seconds))}
    profiles = list(dict.fromkeys(rows["profile"]))
    for row in rows.to_dict("records"):
        low, speed, high = row["low"], row["tokens_per_s"], row["high"]
        figure.add_scatter(
            x=[row["accept_length"]],
            y=[speed],
            mode="markers",
            name=str(row["profile"]),
            showlegend=False,
            marker={
                "symbol": MARKERS[profiles.index(row["profile"]) % len(MARKERS)],
                "size": 11,
                "color": COLOURS[order.get(row["num_steps"], 0) % len(COLOURS)],
                "line": {"width": 1, "color": "#333"},
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [high - speed],
                "arrayminus": [speed - low],
                "thickness": 1.2,
            },
            hovertemplate=f"{row['profile']}, {row['num_steps']} steps: %{{y:.1f}} tok/s at accept length %{{x:.2f}}"
            "<extra></extra>",
        )
    for number, profile in enumerate(profiles):  # a legend for the shapes alone
        figure.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            name=str(profile),
            marker={"symbol": MARKERS[number % len(MARKERS)], "size": 11, "color": "#777"},
        )
    figure.update_xaxes(range=[0.9, widest + 0.1], dtick=0.5)
    figure.update_yaxes(rangemode="tozero")
    return dress(
        figure,
        title="Speed against accept length: above the black line speculation pays",
        x="accept length (tokens per verify step)",
        y="tokens/s per request",
        caption=caption,
        sentence=said.throughput(rows, baseline=baseline, step_seconds=step_seconds, baseline_ci95=baseline_ci95),
        height=480,
    )


def predicted(
    rows: pd.DataFrame,
    *,
    baseline: float,
    caption: str,
    measured: pd.DataFrame | None = None,
    profile: str | None = None,
    num_steps: int | None = None,
    timed: Sequence[int] = (),
) -> go.Figure:
    """Predicted speed against draft steps, with what was measured beside it.

    Args:
        rows: as `helpers.acceptance.tables.prediction_rows` gives.
        baseline: tokens/s without speculation.
        measured: columns ``num_steps``, ``tokens_per_s``, ``low``, ``high``, where there are measurements.
        profile: the configuration that is spoken of, whose colour the curve takes.
        num_steps: as it is served, timed: the numbers of draft steps with a step time: for the figure's sentence.
    """
    import plotly.graph_objects as go

    figure, colour = go.Figure(), COLOURS[0] if profile is None else configurations([profile])[profile].colour
    figure.add_scatter(
        x=[rows["num_steps"].min() - 0.4, rows["num_steps"].max() + 0.4],
        y=[baseline, baseline],
        mode="lines",
        name=f"no speculation, {baseline:.0f} tok/s",
        line={"color": "#000", "width": 2},
        hovertemplate="no speculation: %{y:.1f} tok/s<extra></extra>",
    )
    figure.add_scatter(
        x=rows["num_steps"],
        y=rows["tokens_per_s"],
        mode="lines",
        line={"color": colour, "width": 1.5},
        showlegend=False,
        hoverinfo="skip",
    )
    kinds = (("survival measured", "circle", ""), ("survival extrapolated", "circle-open", "<br>(up to its bounds)"))
    for basis, symbol, note in kinds:
        part = rows[rows["basis"] == basis]
        if part.empty:
            continue
        figure.add_scatter(
            x=part["num_steps"],
            y=part["tokens_per_s"],
            mode="markers",
            name=f"predicted:<br>{basis}{note}",
            marker={"color": colour, "symbol": symbol, "size": 10, "line": {"width": 2, "color": colour}},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": part["high"] - part["tokens_per_s"],
                "arrayminus": part["tokens_per_s"] - part["low"],
            },
            customdata=part[["accept_length", "break_even", "seconds"]],
            hovertemplate="%{x} steps: %{y:.1f} tok/s, accept length %{customdata[0]:.2f} "
            "(needs %{customdata[1]:.2f})<extra></extra>",
        )
    if measured is not None and len(measured):
        figure.add_scatter(
            x=measured["num_steps"] + 0.08,
            y=measured["tokens_per_s"],
            mode="markers",
            name="measured",
            marker={"color": COLOURS[1], "symbol": "diamond", "size": 10},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": measured["high"] - measured["tokens_per_s"],
                "arrayminus": measured["tokens_per_s"] - measured["low"],
            },
            hovertemplate="measured: %{y:.1f} tok/s<extra></extra>",
        )
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(rangemode="tozero")
    return dress(
        figure,
        title="Predicted speed against draft steps, with 95% intervals",
        x="num_steps (drafts proposed in a verify step)",
        y="tokens/s per request",
        caption=caption,
        sentence=said.forecast(rows, baseline=baseline, num_steps=num_steps, measured=timed),
    )
