"""An executed notebook as one HTML file that opens without a network: figures drawn, panels as their static twins.

Plain nbconvert leaves plotly's figures out and fetches scripts from elsewhere. Here plotly's script is in the file,
once, and what a live kernel would be needed for is replaced by what was saved beside it. Formulas stay as they were
typed: MathJax is not put in.

>>> export_notebook(Path("data/investigations/demo/00_start_here.ipynb"))      # doctest: +SKIP
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import Any

from helpers.errors import UsageError
from helpers.figure_sentence import name_of
from helpers.ledger.redacted_text import redact_markdown, redact_text
from helpers.ledger.redaction import redact, tree
from helpers.screen import as_typed

#: Where a panel's display keeps the figures of its static twin: a list of plotly figures as JSON.
FIGURES_MIME = "application/vnd.workbook.figures+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
# What a browser would load by itself when it opens the page; a link that a reader may follow is none of it.
_LOADED = (
    re.compile(
        r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc\s*=\s*[\"']?\s*((?:https?:)?//[^\"'\s>]+)", re.I
    ),
    re.compile(r"<link\b[^>]*?\bhref\s*=\s*[\"']?\s*((?:https?:)?//[^\"'\s>]+)", re.I),
    re.compile(r"(?:@import\s+[\"']|url\(\s*[\"']?)((?:https?:)?//[^\"')\s]+)", re.I),
)
# What is left of nbconvert's own loading once its addresses are gone: MathJax and the drawing of Mermaid's diagrams.
_FETCHING = re.compile(r"<script[^>]*\bsrc=[\"']{2}[^>]*>\s*</script>|<script type=\"module\">.*?</script>", re.S)
_NOTEBOOK_LINK = re.compile(r"<a href=\"(?P<name>[\w.-]+)\.ipynb\"(?P<rest>[^>]*)>(?P<words>.*?)</a>", re.S)
# nbconvert's page breaks printed text within words, and gives code of a Markdown output the font of prose.
_STYLE = """<style>
.jp-OutputArea pre, .jp-RenderedText pre { word-break: normal; overflow-wrap: anywhere; }
.jp-OutputArea pre, .jp-OutputArea pre *, .jp-OutputArea code {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
</style>"""
_SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>", re.I | re.S)


@dataclass(frozen=True)
class Exported:
    """What was written. ``external``: addresses that the page would load from elsewhere, such as a linked image's."""

    path: Path
    figures: int
    external: tuple[str, ...]


def export_notebook(notebook: Path, out: Path | None = None, *, redacted: bool = True) -> Exported:
    """Write a notebook, with the outputs that it was saved with, as one HTML file.

    Args:
        out: by default beside the notebook, with its name. Never half-written.
        redacted: hide tokens, home folders and addresses in outputs and sources, as reports do.

    Raises:
        UsageError: WB-EXPORT-NOTEBOOK for what is no notebook; WB-EXPORT-NOT-RUN; WB-EXPORT-WRITE.
    """
    found = _read(notebook)
    _check_run(notebook, found)
    page, figures = as_html(found, folder=notebook.parent, title=notebook.stem, redacted=redacted)
    out = notebook.with_suffix(".html") if out is None else out
    page = relinked(page, out.parent)
    part = out.with_name(out.name + ".part")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise UsageError(
            "WB-EXPORT-WRITE",
            f"{out} cannot be written: {error.strerror}",
            expected="a folder that can be written to",
            next=f"ls -ld {as_typed(out.parent)}",
        ) from error
    return Exported(out, figures, external_references(page))


def as_html(notebook: Mapping[str, Any], *, folder: Path, title: str, redacted: bool = True) -> tuple[str, int]:
    """The page, and how many figures it draws.

    Args:
        folder: of the notebook; images that it names there are put into the page.
    """
    from nbconvert import HTMLExporter
    from plotly.offline import get_plotlyjs

    offline = Offline(redacted)
    prepared = offline.prepare(notebook)
    exporter = HTMLExporter(embed_images=True)  # type: ignore[no-untyped-call]
    for name in exporter.trait_names():
        if name.endswith("_url"):
            setattr(exporter, name, "")
    page, _ = exporter.from_notebook_node(prepared, resources={"metadata": {"name": title, "path": str(folder)}})
    page = _FETCHING.sub("", page).replace("</head>", f"{_STYLE}\n</head>", 1)
    if offline.figures:
        page = page.replace("</head>", f"<script>{get_plotlyjs()}</script>\n</head>", 1)
    return page, offline.figures


def relinked(page: str, folder: Path) -> str:
    """Links to other notebooks lead to their pages in the folder, or to themselves there; else they are words alone."""

    def link(found: re.Match[str]) -> str:
        beside = [name for name in (f"{found['name']}.html", f"{found['name']}.ipynb") if (folder / name).is_file()]
        return f'<a href="{beside[0]}"{found["rest"]}>{found["words"]}</a>' if beside else found["words"]

    return _NOTEBOOK_LINK.sub(link, page)


@dataclass
class Offline:
    """Turns a notebook's outputs into such as need neither a kernel nor a network."""

    redacted: bool = True
    figures: int = field(default=0, init=False)

    def prepare(self, notebook: Mapping[str, Any]) -> Any:
        """A copy of the notebook."""
        prepared: Any = copy.deepcopy(notebook)
        prepared["metadata"].pop("widgets", None)
        for cell in prepared["cells"]:
            cell["source"] = self._clean(cell["source"], "text/markdown" if cell["cell_type"] == "markdown" else "")
            for output in cell.get("outputs", []):
                if "data" in output:
                    output["data"] = self._data(output["data"])
                for name in ("text", "evalue"):
                    if name in output:
                        output[name] = self._clean(output[name], "text/plain")
                if "traceback" in output:
                    output["traceback"] = [self._clean(line) for line in output["traceback"]]
        return prepared

    def _data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """One output's MIME bundle."""
        kept = {name: value for name, value in data.items() if name not in (WIDGET_MIME, PLOTLY_MIME, FIGURES_MIME)}
        kept = {name: self._clean(value, name) for name, value in kept.items()}
        drawn = [*([data[PLOTLY_MIME]] if PLOTLY_MIME in data else []), *data.get(FIGURES_MIME, [])]
        html = "" if PLOTLY_MIME in data else kept.get("text/html", "")
        if drawn:
            kept["text/html"] = html + "".join(map(self._figure, drawn))
        elif WIDGET_MIME in data and not html:
            shown = escape(str(kept.get("text/plain", "a widget")))[:200]
            kept["text/html"] = f"<p>(an interactive part, shown only by a running notebook: <code>{shown}</code>)</p>"
        return kept

    def _figure(self, figure: Mapping[str, Any]) -> str:
        import plotly.io

        self.figures += 1
        layout = figure.get("layout", {})
        layout = tree(layout, lambda text: redact(text, markup=True)) if self.redacted else layout
        whole = {"data": figure.get("data", []), "layout": layout}
        drawn = plotly.io.from_json(json.dumps(whole), skip_invalid=True).to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            div_id=f"workbook-figure-{self.figures}",
            config={"displaylogo": False, "responsive": True},
        )
        name = escape(unescape(name_of(whole)))  # redacted as markup above
        return (
            f'<div role="figure" aria-label="{name}">{drawn}</div><noscript><p>The figure needs scripts.</p></noscript>'
        )

    def _clean(self, text: Any, kind: str = "") -> Any:
        """One text, by its MIME type: a page's and Markdown's have words that are no tags, and columns stay columns."""
        if not self.redacted or not isinstance(text, str):
            return text
        if kind == "text/markdown":
            return redact_markdown(text)
        markup = kind in ("text/html", "image/svg+xml")
        return redact_text(text, markup=markup) if markup or kind == "text/plain" else redact(text)


def external_references(page: str) -> tuple[str, ...]:
    """Addresses that a browser would load when it opens the page; what stands inside scripts is not searched."""
    tags = _SCRIPT.sub(lambda found: found.group().partition(">")[0] + ">", page)
    return tuple(dict.fromkeys(address for pattern in _LOADED for address in pattern.findall(tags)))


def _check_run(notebook: Path, found: Any) -> None:
    """Refuse a notebook that was never run, or whose outputs were not saved: its page would show nothing."""
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code" and cell["source"].strip()]
    if code and not any(cell.get("outputs") or cell.get("execution_count") for cell in code):
        raise UsageError(
            "WB-EXPORT-NOT-RUN",
            f"none of the {len(code)} code cells of {notebook} has outputs",
            expected="a notebook that was run, and saved with its outputs",
            next=f"run it and save it first, then again: workbook export {as_typed(notebook)}",
        )


def _read(notebook: Path) -> Any:
    import nbformat

    try:
        found = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(found)
        return found
    except (OSError, ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no notebook"
        raise UsageError(
            "WB-EXPORT-NOTEBOOK",
            f"{notebook} cannot be exported: {said}",
            expected="an .ipynb file that was saved with its outputs",
            next=f"ls -l {as_typed(os.path.relpath(notebook.parent))}",
        ) from error
