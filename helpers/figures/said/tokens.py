"""What figures of single tokens show: a pair of slots, and a slot (or a rank) over layers and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.figures.said.phrasing import sentence

if TYPE_CHECKING:
    import pandas as pd


def token_pair(rows: pd.DataFrame) -> str:
    """How alike two slots are in the middle token and in the least alike one, and the ratio of their sizes.

    Args:
        rows: columns ``request``, ``position``, ``served_norm``, ``trained_norm``, ``centred``; a row a token.
    """
    if not len(rows):
        return "No token is on both sides."
    low = rows.sort_values("centred").iloc[0]
    ratio = float((rows["served_norm"] / rows["trained_norm"].clip(lower=1e-30)).median())
    return (
        f"Centred cosine over {len(rows)} tokens: {rows['centred'].median():.3f} in the middle, {low['centred']:.3f} "
        f"at the lowest (request {low['request']:.0f}, position {low['position']:.0f}); the served norm is {ratio:.3g} "
        "times the trained one in the middle."
    )


def layer_tokens(rows: pd.DataFrame, *, value: str, mark: str = "") -> str:
    """At which boundary the value is highest, how high there, and what is marked.

    Args:
        rows: columns ``order``, ``boundary``, ``value``.
        value: what the value is. mark: the words of the mark.
    """
    told = rows.dropna(subset=["value"]).astype({"value": float})
    if not len(told):
        return "There is no value to show."
    middle = told.groupby("boundary")["value"].median()
    boundary = middle.idxmax()
    there = told.loc[told["boundary"] == boundary, "value"]
    return (
        f"{sentence(value)} of {told['order'].nunique()} tokens at {len(middle)} boundaries: highest at boundary "
        f"{boundary}, {there.median():.4g} in the middle token, {there.min():.4g} to {there.max():.4g} over all."
        + (f" Marked: {mark}." if mark else "")
    )
