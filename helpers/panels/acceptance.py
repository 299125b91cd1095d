"""The acceptance panel: configurations side by side against a pinned one, what differs, and the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from helpers.panels import markup
from helpers.panels.acceptance_model import LIMIT, AcceptanceModel
from helpers.panels.chart import Chart
from helpers.panels.panel import Panel, checkbox, dropdown, field, row
from helpers.panels.static import Static

if TYPE_CHECKING:
    from helpers.acceptance.measurement import Measurement, PairedDifference
    from helpers.serving import Profile


class AcceptancePanel(Panel):
    """See `acceptance_panel`. ``model`` is what it shows, without a widget."""

    title = "Acceptance side by side"

    def __init__(self, model: AcceptanceModel) -> None:
        super().__init__()
        self.model = model
        self.baseline = dropdown("Pinned", list(model.all), tooltip="What the deltas are against")
        self.baseline.value = model.baseline
        self.differences = checkbox("Differences only", "Leaves out the rows that are the same everywhere")
        self.search = field("Search", "Only rows with these letters")
        self.shown = {name: checkbox(name, f"Show the configuration {name}", value=True) for name in model.all}
        self.table, self.paired = widgets.HTML(), widgets.HTML()
        self.curves, self.rates = Chart(), Chart()
        for control in (self.baseline, self.differences, self.search, *self.shown.values()):
            control.observe(self._changed, "value")
        label = widgets.HTML(markup.paragraph("Shown:"))
        self.assemble(
            [self.baseline, self.differences, self.search],
            [row([label, *self.shown.values()]), self.table, self.paired, self.curves.widget, self.rates.widget],
        )
        self._draw_tables()
        self.work("Drawing", lambda token: self.model.figures(), self._draw_figures, drop=True)

    def snapshot(self) -> Static:
        return self.model.static()

    def call(self) -> str:
        return self.model.call()

    def _changed(self, change: Mapping[str, Any]) -> None:
        model = self.model
        model.baseline, model.differences_only = self.baseline.value, self.differences.value
        model.search = self.search.value.strip()
        model.shown = tuple(name for name, box in self.shown.items() if box.value)
        self._draw_tables()
        if change["owner"] in (self.baseline, *self.shown.values()):
            self._draw_figures(model.figures())
        self.refresh_call()

    def _draw_tables(self) -> None:
        model = self.model
        words = " ".join(part for part in (model.hidden_words(), LIMIT) if part)
        self.table.value = markup.table(model.table(), caption="Configurations") + markup.paragraph(words)
        pairs = model.paired_rows()
        caption = f"Paired with {model.baseline}, prompt by prompt"
        self.paired.value = markup.table(pairs, caption=caption) if pairs else ""

    def _draw_figures(self, figures: Sequence[Any]) -> None:
        curves, rates = [*figures, None, None][:2]
        self.curves.show(curves)
        self.rates.show(rates)


def acceptance_panel(
    measurements: Mapping[str, Measurement] | Iterable[Measurement],
    *,
    profiles: Mapping[str, Profile] | None = None,
    comparisons: Sequence[PairedDifference] = (),
    pinned: str | None = None,
) -> AcceptancePanel:
    """Compare configurations: a column each, one pinned, with deltas to it, and their curves.

    >>> panel = acceptance_panel(results, profiles=profiles); panel      # doctest: +SKIP
    >>> panel.static().figures[0]                                        # doctest: +SKIP

    Args:
        profiles: what was served, by name, to compare their fields too (the first suspect).
        comparisons: paired differences, shown where the baseline is one of the two.
        pinned: the name of the one that is pinned at first, else the first.
    """
    model = AcceptanceModel(measurements, profiles=profiles, comparisons=comparisons, pinned=pinned)
    return AcceptancePanel(model)
