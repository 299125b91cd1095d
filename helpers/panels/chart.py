"""A plotly figure that changes in place: the same widget, other data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Chart:
    """Holds one figure. Its widget comes with the first `show`, for it brings plotly's script with it (5 MB)."""

    def __init__(self) -> None:
        self.widget = widgets.VBox([])
        self.figure: go.Figure | None = None
        self._live: go.FigureWidget | None = None

    def show(self, figure: go.Figure | None) -> None:
        """Draws this figure, or none."""
        import plotly.graph_objects as go

        self.figure = figure
        if figure is None:
            self.widget.children = []
            return
        if self._live is None:
            self._live = go.FigureWidget(figure)
        else:
            with self._live.batch_update():
                self._live.data = ()
                self._live.add_traces(figure.data)
                self._live.layout = figure.layout
        self.widget.children = [self._live]
