"""A notebook as an offline page: what is replaced, what is hidden, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import plotly.graph_objects as go
import pytest

from helpers.errors import UsageError
from helpers.export import (
    FIGURES_MIME,
    PLOTLY_MIME,
    WIDGET_MIME,
    Offline,
    as_html,
    export_notebook,
    external_references,
)

FIGURE = json.loads(go.Figure(go.Scatter(y=[1, 3, 2])).to_json())


def notebook(*bundles: dict[str, Any], source: str = "figure") -> Any:
    outputs = [nbformat.v4.new_output("display_data", data=data) for data in bundles]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, outputs=outputs)])
    made.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    return made


def data(made: Any, **how: bool) -> list[dict[str, Any]]:
    return [output["data"] for output in Offline(**how).prepare(made)["cells"][0]["outputs"]]


def test_a_figure_is_drawn_in_the_page_and_the_notebook_itself_stays_as_it_is() -> None:
    made = notebook({PLOTLY_MIME: FIGURE, "text/plain": "Figure()"})
    (found,) = data(made)
    assert set(found) == {"text/plain", "text/html"}
    assert "workbook-figure-1" in found["text/html"]
    assert PLOTLY_MIME in made.cells[0].outputs[0].data
    assert "widgets" in made.metadata


def test_lines_of_source_keep_their_indentation() -> None:
    """What makes the page drops white space that stands alone in an element, unless the element is a `pre`."""
    from helpers.source.highlighting import code_table

    table = code_table("a.py", [(7, "        if taps:"), (8, "            return 1")])
    page, _ = as_html(notebook({"text/html": table, "text/plain": "x"}), folder=Path(), title="t")
    text = re.sub(r"<[^>]+>", "", page)
    assert "        if taps:" in text
    assert "            return 1" in text


def test_a_panel_is_its_static_twin_with_its_figures() -> None:
    live = {WIDGET_MIME: {"model_id": "x"}, "text/html": "<table></table>", FIGURES_MIME: [FIGURE, FIGURE]}
    (found,) = data(notebook(live))
    assert set(found) == {"text/html"}
    assert found["text/html"].startswith("<table></table>")
    assert found["text/html"].count("plotly-graph-div") == 2


def test_a_widget_without_a_twin_says_so() -> None:
    (found,) = data(notebook({WIDGET_MIME: {"model_id": "x"}, "text/plain": "IntSlider(value=<0>)"}))
    assert "shown only by a running notebook" in found["text/html"]
    assert "IntSlider(value=&lt;0&gt;)" in found["text/html"]


def test_secrets_are_hidden_in_outputs_sources_and_captions() -> None:
    captioned = json.loads(json.dumps(FIGURE))
    captioned["layout"]["title"] = {"text": "run in /home/ann/x with hf_abcdefghijkl"}
    made = notebook(
        {PLOTLY_MIME: captioned, "text/plain": "x"}, {"text/plain": "/home/ann"}, source="t = 'hf_abcdefghij'"
    )
    made.cells[0].outputs.append(nbformat.v4.new_output("stream", name="stdout", text="Authorization: Bearer abcd"))
    made.cells[0].outputs.append(
        nbformat.v4.new_output("error", ename="E", evalue="at /home/ann", traceback=["/home/ann/y"])
    )
    told = json.dumps(Offline().prepare(made))
    assert not [word for word in ("/home/ann", "hf_abc", "Bearer abcd") if word in told]
    assert "hf_abcdefghijkl" in json.dumps(Offline(redacted=False).prepare(made))


def test_the_page_loads_nothing_and_has_plotly_once(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    nbformat.write(notebook({PLOTLY_MIME: FIGURE}, {PLOTLY_MIME: FIGURE}), file)
    done = export_notebook(file)
    page = done.path.read_text()
    assert (done.path, done.figures, done.external) == (tmp_path / "a.html", 2, ())
    assert page.count("plotly.js v") == 1
    assert external_references(page) == ()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(("beside", "link"), [("", None), ("b.ipynb", "b.ipynb"), ("b.html", "b.html")])
def test_a_link_to_another_notebook_leads_to_what_is_there(tmp_path: Path, beside: str, link: str | None) -> None:
    made = notebook({"text/plain": "x"})
    made.cells.append(nbformat.v4.new_markdown_cell("Next: [b](b.ipynb), and [elsewhere](https://example.org)"))
    nbformat.write(made, tmp_path / "a.ipynb")
    out = tmp_path / "pages"
    out.mkdir()
    if beside:
        (out / beside).write_text("x")
    page = export_notebook(tmp_path / "a.ipynb", out / "a.html").path.read_text()
    assert re.findall(r'href="(b\.[a-z]+)"', page) == ([link] if link else [])
    assert ("Next: b, and" in page) is (link is None)
    assert 'href="https://example.org"' in page


def test_text_is_not_broken_within_words_and_code_is_monospaced() -> None:
    printed = notebook({"text/markdown": "```sh\nworkbook runs\n```", "text/plain": "x"})
    page, _ = as_html(printed, folder=Path(), title="t")
    style = page[page.rindex("<style>") : page.index("</head>")]
    assert "word-break: normal" in style, "it comes last, so it holds"
    assert "monospace" in style


def test_words_for_folders_are_seen_in_every_kind_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", "/mine/lab")
    at = "/mine/lab/home/x"
    made = notebook({"text/html": f"<p>{at}</p>", "text/markdown": at, "text/plain": at})
    made.cells.append(nbformat.v4.new_markdown_cell(f"in {at}"))
    (found,) = data(made)
    assert found["text/html"] == "<p>&lt;box home&gt;/x</p>"
    assert (found["text/markdown"], found["text/plain"]) == ("&lt;box home&gt;/x", "<box home>/x")
    page, _ = as_html(made, folder=Path(), title="t")
    assert page.count("&lt;box home&gt;") == 2, "the output and the cell"


def test_what_would_be_loaded_from_elsewhere_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    made = notebook({"text/plain": "x"})
    made.cells.append(
        nbformat.v4.new_markdown_cell("![x](https://example.org/x.png) and [a link](https://example.org)")
    )
    nbformat.write(made, file)
    assert export_notebook(file).external == ("https://example.org/x.png",)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<script src="//cdn.org/x.js"></script>', ("//cdn.org/x.js",)),
        ("<link rel=stylesheet href=https://cdn.org/x.css>", ("https://cdn.org/x.css",)),
        ("<style>@import 'https://cdn.org/x.css'; a { background: url(http://y.org/z) }</style>", 2),
        ('<a href="https://example.org">x</a><script>"<img src=https://x.org/y>"</script>', ()),
        ('<img src="data:image/png;base64,aaaa"><img src="local.png">', ()),
    ],
)
def test_external_references(page: str, found: tuple[str, ...] | int) -> None:
    told = external_references(page)
    assert (len(told) if isinstance(found, int) else told) == found


@pytest.mark.parametrize("text", [None, "no notebook", '{"cells": 1}'])
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "a.ipynb"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as caught:
        export_notebook(file)
    assert caught.value.code == "WB-EXPORT-NOTEBOOK"


def test_a_notebook_that_was_never_run_is_refused_and_one_without_code_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    made = notebook()
    nbformat.write(made, file)
    with pytest.raises(UsageError, match="WB-EXPORT-NOT-RUN: none of the 1 code cells") as caught:
        export_notebook(file)
    assert f"workbook export {file}" in caught.value.next
    assert list(tmp_path.iterdir()) == [file]
    made.cells[0].execution_count = 1  # it was run, and prints nothing
    nbformat.write(made, file)
    assert export_notebook(file).figures == 0
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("text")]), file)
    assert export_notebook(file).figures == 0


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    nbformat.write(notebook({"text/plain": "x"}), file)
    with pytest.raises(UsageError) as caught:
        export_notebook(file, tmp_path / "missing/a.html")
    assert caught.value.code == "WB-EXPORT-WRITE"
