"""The wiring panel: slot matrix, one pair of slots token by token, a slot over layers and tokens, the findings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from helpers.panels import markup
from helpers.panels.chart import Chart
from helpers.panels.hearing import heard_while_busy
from helpers.panels.panel import Panel, dropdown, row
from helpers.panels.static import Static
from helpers.panels.wiring_model import NO_FEED, Read, WiringModel
from helpers.panels.worker import Token
from helpers.wiring.per_token import TOKENS

if TYPE_CHECKING:
    from helpers.tensors.capture import Capture
    from helpers.tensors.dumps import Dump
    from helpers.wiring.diagnosis import Diagnosis


class WiringPanel(Panel):
    """See `wiring_panel`. ``model`` is what it shows, without a widget."""

    title = "Wiring: what training captured against what the drafter is fed"
    patience = None  # a comparison ends

    def __init__(self, model: WiringModel) -> None:
        super().__init__()
        self.model = model
        self.matrix = widgets.VBox([])
        self.cells: dict[tuple[int, int], widgets.Button] = {}
        self.served = dropdown("Served slot", [], tooltip="Which served slot is shown token by token")
        self.trained = dropdown("Trained slot", [], tooltip="Which trained slot it is compared with")
        self.ladder_of = dropdown("Layers and tokens of", [], tooltip="What is shown over layers and tokens")
        self.words = widgets.HTML()
        self.pair_chart, self.ladder_chart = Chart(), Chart()
        self.findings = widgets.HTML(markup.paragraph(model.verdict()) + _findings(model))
        self._filling = False
        for control in (self.served, self.trained):
            control.observe(self._pair_chosen, "value")
        self.ladder_of.observe(self._ladder_chosen, "value")
        self.assemble(
            [],
            [
                self.findings,
                self.matrix,
                row([self.served, self.trained]),
                self.words,
                self.pair_chart.widget,
                row([self.ladder_of]),
                self.ladder_chart.widget,
            ],
        )
        self.load()

    def load(self) -> None:
        """Compare the two sides, beside the main thread."""

        def read(token: Token) -> Read:
            return self.model.read(token.check, lambda text: self.worker.detail(text, token))

        self.work("Comparing features", read, self._take, drop=True)

    def select(self, served: int, trained: int) -> None:
        """Show this pair token by token: what a click on a cell of the matrix does."""
        self.model.pair = (served, trained)
        self._mark()
        self._draw_pair()
        self.refresh_call()

    def snapshot(self) -> Static:
        return self.model.static()

    def call(self) -> str:
        return self.model.call()

    def _take(self, read: Read) -> None:
        self.model.take(read)
        self._filling = True
        try:
            if self.model.has_pairs:
                compared = read.compared
                self.served.options = list(range(compared.served_slots))
                self.trained.options = list(range(compared.trained_slots))
            self.ladder_of.options = list(self.model.ladder_choices)
            self.ladder_of.value = self.model.ladder_of or None
        finally:
            self._filling = False
        self._draw_matrix()
        if self.model.has_pairs:
            self.select(*self.model.pair)
        else:
            self.words.value = markup.paragraph(NO_FEED)
        self.ladder_chart.show(self.model.ladder_figure())

    def _draw_matrix(self) -> None:
        from helpers.figures.theme import shade

        matrix = self.model.matrix
        if not self.model.has_pairs:
            return
        wide, head = {"width": "108px"}, {"width": "108px", "margin": "2px"}
        lines = [
            [
                widgets.Label("", layout=head),
                *(widgets.Label(f"trained {j}", layout=head) for j in range(len(matrix[0]))),
            ]
        ]
        for i, values in enumerate(matrix):
            cells: list[widgets.Widget] = [widgets.Label(f"served {i}", layout=head)]
            for j, value in enumerate(values):
                ground, ink = shade(value)
                cell = widgets.Button(
                    tooltip=f"served slot {i}, trained slot {j}: mean centred cosine {value:.4f}. Shows it per token.",
                    layout=wide,
                    style={"button_color": ground, "text_color": ink},
                )
                cell.add_class("workbook-cell")
                cell.on_click(partial(self._clicked, i, j))
                heard_while_busy(cell)
                self.cells[i, j] = cell
                cells.append(cell)
            lines.append(cells)
        tokens = self.model.loaded.compared.tokens if self.model.loaded else 0
        title = markup.heading(
            f"Slot matrix: mean centred cosine over {tokens} tokens. A cell shows its pair below.", 5
        )
        self.matrix.children = [widgets.HTML(title), *(widgets.HBox(line) for line in lines)]

    def _mark(self) -> None:
        """The chosen cell has a sign and a frame; the lists say the same pair."""
        for (i, j), cell in self.cells.items():
            chosen = (i, j) == self.model.pair
            cell.description = f"{'▸ ' if chosen else ''}{self.model.matrix[i][j]:.3f}"
            cell.style.font_weight = "bold" if chosen else "normal"
            cell.layout.border = "2px solid var(--jp-content-font-color1,#000)" if chosen else "2px solid transparent"
        self._filling = True
        try:
            self.served.value, self.trained.value = self.model.pair
        finally:
            self._filling = False

    def _draw_pair(self) -> None:
        self.words.value = markup.paragraph(self.model.pair_summary())
        self.pair_chart.show(self.model.pair_figure())

    def _clicked(self, served: int, trained: int, _: widgets.Button) -> None:
        self.select(served, trained)

    def _pair_chosen(self, _: Mapping[str, Any]) -> None:
        if not self._filling and self.served.value is not None and self.trained.value is not None:
            self.select(self.served.value, self.trained.value)

    def _ladder_chosen(self, _: Mapping[str, Any]) -> None:
        if not self._filling and self.ladder_of.value is not None:
            self.model.ladder_of = self.ladder_of.value
            self.ladder_chart.show(self.model.ladder_figure())
            self.refresh_call()


def _findings(model: WiringModel) -> str:
    return markup.table(model.findings(), caption="Findings") if model.diagnosis is not None else ""


def wiring_panel(
    capture: Capture,
    dump: Dump,
    diagnosis: Diagnosis | Mapping[str, Any] | None = None,
    *,
    tokens: int = TOKENS,
) -> WiringPanel:
    """Look into a wiring: which slot is what, and token by token.

    A cell of the slot matrix (a click, or Enter on it) shows the norms and cosines of that pair of slots for each
    token. Below, a slot or a rank over layers and tokens, with the first divergence marked. All is read beside the main
    thread; of large captures the views of single tokens hold every s-th paired token, ``tokens`` at most.

    >>> panel = wiring_panel(capture, dump, diagnose(capture, dump))      # doctest: +SKIP
    >>> panel.static().figures[0]                                         # doctest: +SKIP

    Args:
        diagnosis: its findings are shown above the matrix.
    """
    return WiringPanel(WiringModel(capture, dump, diagnosis, tokens=tokens))
