"""The line of a panel that says what goes on: read out by screen readers when it changes, an error as it is."""

from __future__ import annotations

from typing import Literal

import anywidget
import traitlets

Kind = Literal["info", "busy", "done", "error"]
#: A sign beside the words, so that nothing is told by colour alone.
SIGNS = {"info": "", "busy": "… ", "done": "✓ ", "error": "✗ "}


class StatusLine(anywidget.AnyWidget):
    """``text`` with its sign. The element stays the same when the text changes: only then is it read out."""

    _esm = """
    export default {
      render({ model, el }) {
        const line = document.createElement("pre");
        line.setAttribute("role", "status");
        line.setAttribute("aria-live", "polite");
        line.style.cssText = "margin:2px 0;white-space:pre-wrap;font-size:13px;line-height:1.4;" +
          "font-family:inherit;color:var(--jp-content-font-color1,inherit);background:none;border:none;" +
          "border-left:4px solid transparent;padding:2px 8px";
        const draw = () => {
          line.textContent = model.get("text");
          line.dataset.kind = model.get("kind");
          line.style.borderLeftColor = { error: "#D55E00", busy: "#56B4E9", done: "#009E73" }[model.get("kind")] ||
            "transparent";
          line.style.fontFamily = model.get("kind") === "error" ? "monospace" : "inherit";
        };
        model.on("change:text", draw);
        model.on("change:kind", draw);
        el.appendChild(line);
        draw();
      }
    };
    """
    text = traitlets.Unicode("").tag(sync=True)
    kind = traitlets.Unicode("info").tag(sync=True)

    def say(self, text: str, kind: Kind = "info") -> None:
        """Show this."""
        with self.hold_sync():
            self.kind = kind
            self.text = SIGNS[kind] + text
