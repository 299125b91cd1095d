"""Curves of acceptance: against draft steps, position in the text, and time. Tidy data in, figure out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import COLOURS, DASHES, GREY, MARKERS, configurations
from helpers.figures.theme import band, dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def accept_length_by_steps(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Accept length against draft steps, one curve a configuration; a grey line marks what all drafts accepted give.

    Args:
        rows: columns ``profile``, ``num_steps``, ``accept_length``, ``low``, ``high`` (95% interval).
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    steps = sorted(rows["num_steps"].unique())
    figure.add_scatter(
        x=steps,
        y=[k + 1 for k in steps],
        name="all drafts accepted",
        mode="lines",
        line={"color": "#999", "dash": "dot", "width": 1.5},
        hovertemplate="at most %{y}<extra></extra>",
    )
    _curves(figure, rows, x="num_steps", y="accept_length", hover="%{y:.2f}")
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(rangemode="tozero")
    return dress(
        figure,
        title="Accept length against draft steps, with 95% bands",
        x="num_steps (drafts proposed in a verify step)",
        y="tokens per verify step",
        caption=caption,
        sentence=said.lengths(rows),
    )


def over_position(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Tokens per verify step against the position in the answer, pooled in bins.

    Args:
        rows: columns ``profile``, ``position`` (tokens), ``accept_length``, ``low``, ``high`` (95% interval).
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    _curves(figure, rows, x="position", y="accept_length", hover="%{y:.2f} at token %{x}")
    figure.update_yaxes(rangemode="tozero")
    return dress(
        figure,
        title="Acceptance against position in the answer, with 95% bands",
        x="position in the answer (new tokens, middle of a bin)",
        y="tokens per verify step",
        caption=caption,
        sentence=said.positions(rows),
    )


def over_time(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Accept length of each log interval against time, one series a server.

    Args:
        rows: columns ``time`` (anything that pandas reads as a time), ``server``, ``accept_length``, ``running``
            (requests; may be missing), as `helpers.acceptance.sources.decode_rows` gives.
    """
    import pandas as pd
    import plotly.graph_objects as go

    figure = go.Figure()
    rows = rows.assign(time=pd.to_datetime(rows["time"], errors="coerce", format="mixed"))
    first = rows["time"].min()
    for number, (server, part) in enumerate(rows.groupby("server", sort=False)):
        ordered = part.sort_values("time")
        running = ordered["running"] if "running" in ordered else pd.Series([None] * len(ordered))
        figure.add_scatter(
            x=ordered["time"],
            y=ordered["accept_length"],
            name=str(server) or "server",
            mode="lines+markers",
            marker={"symbol": MARKERS[number % len(MARKERS)], "size": 6},
            line={"color": COLOURS[number % len(COLOURS)], "dash": DASHES[number % len(DASHES)], "width": 1.5},
            customdata=running.fillna(-1).astype(int),
            hovertemplate="%{fullData.name}: %{y:.2f}, %{customdata} running<extra></extra>",
        )
    figure.update_xaxes(tickformat="%H:%M:%S" if rows["time"].max() - first < pd.Timedelta(days=1) else "%m-%d %H:%M")
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(showlegend=rows["server"].nunique() > 1)
    return dress(
        figure,
        title="Accept length over time, one point a log interval",
        x="time of the server's log" + ("" if pd.isna(first) else f" (from {first:%Y-%m-%d %H:%M:%S})"),
        y="tokens per verify step",
        caption=caption,
        sentence=said.over_time(rows),
    )


def prompt_scatter(rows: pd.DataFrame, *, first: str, second: str, caption: str) -> go.Figure:
    """Each prompt's accept length under two configurations; above the line the second is better.

    Args:
        rows: columns ``prompt``, ``first``, ``second`` (accept lengths), ``steps`` (the fewer verify steps of the two).
        first, second: the configurations' names.
    """
    import plotly.graph_objects as go

    most = float(max(rows["first"].max(), rows["second"].max())) + 0.2
    figure = go.Figure()
    figure.add_scatter(
        x=[1, most],
        y=[1, most],
        mode="lines",
        line={"color": "#999", "dash": "dot", "width": 1.5},
        name="equal",
        hoverinfo="skip",
    )
    sizes = rows["steps"].clip(lower=1) ** 0.5
    figure.add_scatter(
        x=rows["first"],
        y=rows["second"],
        mode="markers",
        name="one prompt (area: verify steps)",
        text=rows["prompt"],
        customdata=rows["steps"],
        marker={
            "color": GREY,  # of both configurations, so of neither's colour
            "size": 6 + 14 * sizes / sizes.max(),
            "opacity": 0.65,
            "line": {"width": 1, "color": "white"},
        },
        hovertemplate="%{text}: %{x:.2f} and %{y:.2f}, %{customdata} steps at least<extra></extra>",
    )
    better = int((rows["second"] > rows["first"]).sum())
    figure.update_xaxes(range=[0.9, most], constrain="domain")
    figure.update_yaxes(range=[0.9, most], scaleanchor="x", scaleratio=1, constrain="domain")
    return dress(
        figure,
        title=f"Accept length by prompt: {second} above {first} in {better} of {len(rows)}",
        x=f"{first}: tokens per verify step",
        y=f"{second}: tokens per verify step",
        caption=caption,
        sentence=said.prompts(rows, first=first, second=second),
        height=560,
    )


def _curves(figure: go.Figure, rows: pd.DataFrame, *, x: str, y: str, hover: str) -> None:
    styles = configurations(rows["profile"])
    for profile, part in rows.groupby("profile", sort=False):
        ordered, style = part.sort_values(x), styles[str(profile)]
        band(figure, ordered[x], ordered["low"], ordered["high"], colour=style.colour, group=str(profile))
        figure.add_scatter(
            x=ordered[x],
            y=ordered[y],
            name=str(profile),
            legendgroup=str(profile),
            mode="lines+markers",
            marker={"symbol": style.marker, "size": 8},
            line={"color": style.colour, "dash": style.dash},
            hovertemplate=f"%{{fullData.name}}: {hover}<extra></extra>",
        )
