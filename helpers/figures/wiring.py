"""Figures of the wiring: feature norms, the slot matrix, and each slot against the ladder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figures import said
from helpers.figures.palette import SIDES, change_colour, slot_colour
from helpers.figures.theme import COSINE_SCALE, dress

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def feature_norms(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Token norms of each slot, what training captured beside what serving feeds.

    Args:
        rows: columns ``side`` ("trained" or "served"), ``slot`` (int), ``token`` (position), ``norm`` (L2, float);
            a row a token and slot.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for side, colour in SIDES.items():
        part = rows[rows["side"] == side]
        figure.add_box(
            x=[f"slot {slot}" for slot in part["slot"]],
            y=part["norm"],
            name=side,
            marker_color=colour,
            boxpoints="outliers",
            marker_size=3,
        )
    figure.update_layout(boxmode="group", legend_title_text="features")
    # Slots differ by factors (an embedding is a hundred times shorter than a late tap): a linear axis would hide one.
    figure.update_yaxes(type="log", dtick=1, minor={"dtick": "D1", "showgrid": True})
    return dress(
        figure,
        title="Feature norms per slot, trained against served",
        x="slot of the drafter's fused input",
        y="L2 norm of a token's feature (log scale)",
        caption=caption,
        sentence=said.norms(rows),
    )


def slot_matrix(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Mean centred cosine of every served slot with every trained slot.

    Args:
        rows: columns ``served`` (int), ``trained`` (int), ``cosine`` (float in -1..1). A good wiring has
            ones on the diagonal.
    """
    import plotly.graph_objects as go

    table = rows.pivot(index="served", columns="trained", values="cosine")
    figure = go.Figure(
        go.Heatmap(
            z=table.to_numpy(),
            x=[f"trained slot {c}" for c in table.columns],
            y=[f"served slot {r}" for r in table.index],
            zmin=0,
            zmax=1,
            colorscale=COSINE_SCALE,
            colorbar_title="centred cosine",
            text=[[f"{v:.3f}" for v in row] for row in table.to_numpy()],
            texttemplate="%{text}",
            hovertemplate="%{y}, %{x}: %{z:.4f}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed")
    return dress(
        figure,
        title="Slot matrix: which trained slot does each served slot look like?",
        x="trained (the dump)",
        y="served (the feed)",
        caption=caption,
        sentence=said.slot_matrix(rows),
    )


def ladder(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """Each slot's centred cosine with every boundary of the ladder; the peak says which boundary the slot is.

    Args:
        rows: columns ``side``, ``slot`` (int), ``boundary`` (int), ``cosine`` (float).
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    # A trained slot that was fed to another one lies exactly on its curve: it is drawn above it, as rings and dots.
    for (side, slot), part in rows.groupby(["side", "slot"]):
        ordered, trained = part.sort_values("boundary"), side == "trained"
        peak = ordered["cosine"].to_numpy().argmax()
        large, small = (19, 8) if trained else (12, 4)
        figure.add_scatter(
            x=ordered["boundary"],
            y=ordered["cosine"],
            name=f"{side} slot {slot}",
            mode="lines+markers",
            marker={
                "size": [large if i == peak else small for i in range(len(ordered))],
                "symbol": "circle-open" if trained else "circle",
                "line": {"width": 2},
                "opacity": 1,
            },
            line={
                "color": slot_colour(int(str(slot))),
                "dash": "dot" if trained else "solid",
                "width": 2.5 if trained else 2,
            },
        )
    figure.update_xaxes(dtick=1 if rows["boundary"].max() <= 20 else None)
    return dress(
        figure,
        title="Which boundary is each slot? Dot (served) and ring (trained): its best match",
        x="boundary (0 = embedding output, n = after the last layer)",
        y="mean centred cosine",
        caption=caption,
        sentence=said.ladder(rows),
    )


def slot_costs(rows: pd.DataFrame, *, caption: str) -> go.Figure:
    """What changing one slot at a time does to the accept rate, with paired 95% intervals.

    Args:
        rows: columns ``slot`` (int), ``change`` (str), ``difference``, ``low``, ``high`` (of the accept rate).
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for change, part in rows.groupby("change", sort=False):
        figure.add_bar(
            x=[f"slot {slot}" for slot in part["slot"]],
            y=100 * part["difference"],
            name=str(change),
            marker_color=change_colour(str(change)),
            hovertemplate="%{x}, %{fullData.name}: %{y:+.1f} points<extra></extra>",
            error_y={
                "type": "data",
                "symmetric": False,
                "array": 100 * (part["high"] - part["difference"]),
                "arrayminus": 100 * (part["difference"] - part["low"]),
            },
        )
    figure.add_hline(y=0, line_width=1)
    figure.update_layout(barmode="group", legend_title_text="the slot is given")
    figure.update_yaxes(tickformat="+d")
    return dress(
        figure,
        title="What each slot costs: one slot changed at a time",
        x="slot of the drafter's fused input",
        y="change of accept rate (points)",
        caption=caption,
        sentence=said.slot_costs(rows),
    )
