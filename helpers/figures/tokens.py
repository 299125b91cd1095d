"""Figures of single tokens: a pair of slots, and a slot (or a rank) over layers and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import BLACK, GREEN, SERVED, TRAINED, VERMILION
from helpers.figures.theme import COSINE_SCALE, dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

TOKEN = "request %{customdata[0]}, position %{customdata[1]}, token id %{customdata[2]}"


def token_pair(rows: pd.DataFrame, *, title: str, caption: str) -> go.Figure:
    """Norms of both sides above, cosines below, token by token.

    Args:
        rows: columns ``order``, ``request``, ``position``, ``token_id``, ``served_norm``, ``trained_norm``, ``cosine``,
            ``centred``; a row a token.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.5, 0.5])
    token = rows[["request", "position", "token_id"]].to_numpy()
    lines = (
        ("trained_norm", "trained norm", TRAINED, "solid", 1),
        ("served_norm", "served norm", SERVED, "dot", 1),
        ("cosine", "cosine", BLACK, "dot", 2),
        ("centred", "centred cosine", GREEN, "solid", 2),
    )
    for column, name, colour, dash, place in lines:
        figure.add_scatter(
            x=rows["order"],
            y=rows[column],
            name=name,
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2},
            customdata=token,
            hovertemplate=f"{name} %{{y:.4g}}<br>{TOKEN}<extra></extra>",
            row=place,
            col=1,
        )
    for start in rows.loc[rows["request"].diff().fillna(0) != 0, "order"]:
        figure.add_vline(x=start - 0.5, line={"color": "#bbb", "width": 1})
    # Sides differ by factors: a linear axis would hide the shorter one.
    figure.update_yaxes(type="log", title_text="L2 norm (log)", row=1, col=1)
    low = min(0.0, float(rows[["cosine", "centred"]].min().min()) if len(rows) else 0.0)
    figure.update_yaxes(range=[low - 0.05, 1.05], title_text="cosine", row=2, col=1)
    words = said.token_pair(rows)
    dress(figure, title=title, x="", y="L2 norm (log)", caption=caption, sentence=words, height=460)
    figure.update_xaxes(title_text="token, in the order of the requests (grey lines part them)", row=2, col=1)
    return figure


def layer_tokens(
    rows: pd.DataFrame,
    *,
    title: str,
    value: str,
    caption: str,
    cosine: bool = True,
    mark: tuple[int, int, str] | None = None,
) -> go.Figure:
    """A value for each boundary and token.

    Args:
        rows: columns ``order``, ``request``, ``position``, ``token_id``, ``boundary``, ``value``.
        value: what the value is, with its unit.
        cosine: the value is a cosine (scale up to 1), else a difference (scale from 0 up).
        mark: a token (its ``order``), a boundary, and what to write there: the first divergence.
    """
    import numpy as np
    import plotly.graph_objects as go

    table = rows.pivot(index="boundary", columns="order", values="value")
    tokens = rows.drop_duplicates("order").sort_values("order")[["request", "position", "token_id"]].to_numpy()
    figure = go.Figure(
        go.Heatmap(
            z=table.to_numpy(),
            x=list(table.columns),
            y=list(table.index),
            # The whole scale for what there is: near 1, small differences matter.
            zmin=float(table.min().min()) if cosine else 0,
            zmax=1 if cosine else None,
            colorscale=COSINE_SCALE,
            colorbar_title=value.replace(" ", "<br>", 1),
            customdata=np.broadcast_to(tokens, (len(table.index), *tokens.shape)),
            hovertemplate=f"boundary %{{y}}: %{{z:.4g}}<br>{TOKEN}<extra></extra>",
        )
    )
    if mark is not None:
        order, boundary, words = mark
        figure.add_scatter(
            x=[order],
            y=[boundary],
            mode="markers",
            marker={"symbol": "x", "size": 14, "color": VERMILION, "line": {"color": "#fff", "width": 2}},
            hovertemplate=words + "<extra></extra>",
            showlegend=False,
        )
        left = order < len(table.columns) / 2  # so that the words stay inside
        arrow = {"ax": 40 if left else -40, "ay": -30, "xanchor": "left" if left else "right"}
        figure.add_annotation(x=order, y=boundary, text=words, bgcolor="#fff", bordercolor="#555", **arrow)
    figure.update_xaxes(range=[-0.5, len(table.columns) - 0.5])
    figure.update_yaxes(dtick=1 if len(table.index) <= 20 else None)
    return dress(
        figure,
        title=title,
        x="token, in the order of the requests",
        y="boundary (0 = embedding output)",
        caption=caption,
        sentence=said.layer_tokens(rows, value=value, mark=mark[2] if mark is not None else ""),
        height=440,
    )
