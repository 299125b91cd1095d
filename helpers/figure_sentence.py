"""The sentence of a figure, kept in the figure itself: reports, panels and exported pages have no table to make it of.

It lies in the layout's ``meta``, which plotly keeps and does not draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

KEY = "said"


def give_sentence(figure: go.Figure, text: str) -> None:
    """Puts what the figure shows, in words, into it; no words leave it as it is."""
    if text:
        figure.update_layout(meta={KEY: text})


def sentence_of(figure: go.Figure | Mapping[str, Any]) -> str:
    """What the figure shows, in words; nothing where nobody gave it a sentence.

    Args:
        figure: as plotly has it, or as JSON.

    >>> sentence_of({"layout": {"meta": {"said": "It rises."}}}), sentence_of({"layout": {}})
    ('It rises.', '')
    """
    meta = figure.get("layout", {}).get("meta") if isinstance(figure, Mapping) else figure.layout.meta
    return str(meta.get(KEY) or "") if isinstance(meta, Mapping) else ""


def name_of(figure: go.Figure | Mapping[str, Any]) -> str:
    """Its title and its sentence, as one name for screen readers."""
    sentence = sentence_of(figure)
    return f"{title_of(figure)}. {sentence}" if sentence else title_of(figure)


def title_of(figure: go.Figure | Mapping[str, Any]) -> str:
    """Its title; ``a figure`` where it has none."""
    if not isinstance(figure, Mapping):
        return str(figure.layout.title.text or "a figure")
    title = figure.get("layout", {}).get("title")
    text = title.get("text") if isinstance(title, Mapping) else title
    return str(text or "a figure")
