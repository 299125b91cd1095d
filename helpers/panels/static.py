"""The static twin of a panel: tables and figures without a kernel, for exported notebooks and reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.export import FIGURES_MIME
from helpers.figure_sentence import sentence_of, title_of
from helpers.panels import markup

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of one set of columns; what a report's section takes as its table. A notebook shows it as one."""

    caption: str
    rows: Sequence[Mapping[str, str]]

    @property
    def text(self) -> str:
        """For a terminal and for text/plain."""
        if not self.rows:
            return f"{self.caption}: none"
        grid = [list(self.rows[0]), *([str(cell) for cell in row.values()] for row in self.rows)]
        widths = [max(len(line[at]) for line in grid) for at in range(len(grid[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in grid]
        return "\n".join([self.caption, *(line.rstrip() for line in lines)])

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return markup.table(self.rows, caption=self.caption)


@dataclass(frozen=True)
class Static:
    """What a panel shows now, for good.

    Attributes:
        paragraphs: plain text. blocks: (label, text) shown as it is, such as a command or a log.
        tables, figures: in the order in which they are read.
    """

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    blocks: Sequence[tuple[str, str]] = ()
    figures: Sequence[go.Figure] = ()

    @property
    def html(self) -> str:
        """Everything, the figures by their sentences, as HTML that needs no script."""
        parts = [markup.heading(self.title), *map(markup.paragraph, self.paragraphs)]
        parts += [markup.table(table.rows, caption=table.caption) for table in self.tables]
        parts += [
            markup.paragraph(label) + markup.block(text, label=label, height="none") for label, text in self.blocks
        ]
        parts += map(markup.paragraph, self.said)
        return "".join(parts)

    @property
    def text(self) -> str:
        blocks = [f"{label}\n{text}" for label, text in self.blocks]
        return "\n\n".join([self.title, *self.paragraphs, *(table.text for table in self.tables), *blocks, *self.said])

    @property
    def said(self) -> list[str]:
        """What each figure shows, in words, under its title."""
        return [f"{title_of(figure)}: {sentence_of(figure)}" for figure in self.figures if sentence_of(figure)]

    def bundle(self) -> dict[str, Any]:
        """The twin as a MIME bundle: HTML for every front end, and the figures for our own exporter."""
        bundle: dict[str, Any] = {"text/plain": self.text, "text/html": self.html}
        if self.figures:
            bundle[FIGURES_MIME] = [json.loads(figure.to_json()) for figure in self.figures]
        return bundle

    def _ipython_display_(self) -> None:
        """Shows the tables, then each figure as an output of its own, as every front end can draw it."""
        from IPython.display import display

        display({"text/plain": self.text, "text/html": self.html}, raw=True)  # type: ignore[no-untyped-call]
        for figure in self.figures:
            display(figure)  # type: ignore[no-untyped-call]
