"""A plotly figure that changes in place, in any front end that has widgets, without a network.

plotly's own FigureWidget carries plotly's script (5 MB) in each widget's state, and changes traces by deleting and
adding them, which a busy browser takes in the wrong order. Here a page asks for the script once, packed (1.5 MB), and
a figure is drawn anew by one call.
"""

from __future__ import annotations

import functools
import gzip
import threading
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import traitlets

from helpers.figure_sentence import sentence_of, title_of
from helpers.panels.hearing import heard_while_busy

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCRIPT = "plotly"


class FigureView(anywidget.AnyWidget):
    """Draws ``figure``, a plotly figure as JSON. ``label``: its name for screen readers; ``said``: what it shows."""

    _esm = """
    const ask = (model) => new Promise((resolve, reject) => {
      const take = async (message, buffers) => {
        if (message?.kind !== "plotly") return;
        model.off("msg:custom", take);
        try {
          const packed = new Blob([buffers[0]]).stream().pipeThrough(new DecompressionStream("gzip"));
          const module = { exports: {} };
          const run = new Function("module", "exports", "define", await new Response(packed).text());
          run(module, module.exports, undefined);
          resolve(module.exports.react ? module.exports : window.Plotly);
        } catch (error) { reject(error); }
      };
      model.on("msg:custom", take);
      model.send({ kind: "plotly" });
    });
    const later = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    // One script for all figures of the page; should the view that asked be gone, another asks.
    const plotly = (model) => {
      window.workbookPlotly ??= ask(model);
      return Promise.race([
        window.workbookPlotly,
        later(60).then(() => (window.workbookPlotlyAgain ??= ask(model))),
      ]);
    };
    export default {
      render({ model, el }) {
        const host = document.createElement("div");
        host.setAttribute("role", "figure");
        host.textContent = "drawing …";
        const words = document.createElement("p");
        words.id = `workbook-figure-${(window.workbookFigures = (window.workbookFigures ?? 0) + 1)}`;
        words.style.cssText = "margin:.3em 0;line-height:1.4";
        host.setAttribute("aria-describedby", words.id);
        el.append(host, words);
        el.style.width = "100%";
        let drawn = plotly(model), gone = false;
        const draw = async () => {
          const library = await plotly(model);
          if (gone) return;
          if (!host.classList.contains("js-plotly-plot")) host.textContent = "";
          const figure = JSON.parse(model.get("figure"));
          host.setAttribute("aria-label", model.get("label"));
          words.textContent = model.get("said");
          await library.react(host, figure.data, figure.layout, { displaylogo: false, responsive: true });
        };
        const queue = () => {
          drawn = drawn.then(draw).catch((error) => { host.textContent = `the figure could not be drawn: ${error}`; });
        };
        model.on("change:figure", queue);
        queue();
        return () => { gone = true; model.off("change:figure", queue); };
      }
    };
    """
    figure = traitlets.Unicode("{}").tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    said = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._asked)
        heard_while_busy(self)

    def _asked(self, _: Any, content: Any, __: Any) -> None:
        if content == {"kind": SCRIPT}:
            self.send({"kind": SCRIPT}, buffers=[script()])


class Chart:
    """Holds one figure, or none."""

    def __init__(self) -> None:
        self.widget = widgets.VBox([])
        self.figure: go.Figure | None = None
        self._view: FigureView | None = None
        self._lock = threading.Lock()  # a worker and a click may both draw

    def show(self, figure: go.Figure | None) -> None:
        """Draws this figure, or none."""
        with self._lock:
            self.figure = figure
            if figure is None:
                self.widget.children = []
                return
            told = {"figure": figure.to_json(), "label": title_of(figure), "said": sentence_of(figure)}
            if self._view is None:
                self._view = FigureView(**told)
            else:
                with self._view.hold_sync():
                    self._view.label, self._view.said, self._view.figure = told["label"], told["said"], told["figure"]
            self.widget.children = [self._view]


@functools.cache
def script() -> bytes:
    """plotly's script, packed: below the rate at which a Jupyter server drops messages (1 MB/s over three seconds)."""
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)
