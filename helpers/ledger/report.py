"""Builds an investigation's report: report.json to re-check, and one HTML file that opens without a network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from helpers.ledger.redaction import redact, redact_tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = "workbook.report/1"


@dataclass(frozen=True)
class Section:
    """One step of the story: prose, then a table or a figure.

    Attributes:
        paragraphs: plain text; each becomes a paragraph.
        table: column name -> value, a mapping a row; all rows have the same columns.
        figure: drawn below the table.
    """

    title: str
    paragraphs: Sequence[str]
    table: Sequence[Mapping[str, str]] = ()
    figure: go.Figure | None = None


@dataclass(frozen=True)
class ReportPaths:
    """Where a report was written."""

    html: Path
    json: Path


def write_report(
    folder: Path,
    *,
    title: str,
    summary: Sequence[str],
    sections: Sequence[Section],
    data: Mapping[str, Any],
    homes: tuple[str, ...] = (),
) -> ReportPaths:
    """Writes ``report.json`` and ``report.html`` into `folder`; neither is ever half-written.

    Args:
        summary: the answer first: what was wrong, how it is known, what the fix gave.
        data: the content of report.json; embedded in the HTML as well.
        homes: folders of the box and the laptop that appear as ``~`` in both files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(redact_tree({"schema": SCHEMA, **data}, homes=homes), indent=2, ensure_ascii=False)
    # The parts and not the page: plotly's own script, whose text is none of ours, must stay as it is.
    clean = [_redacted(section, homes) for section in sections]
    page = _render(redact(title, homes=homes), [redact(line, homes=homes) for line in summary], clean, text)
    paths = ReportPaths(folder / "report.html", folder / "report.json")
    _write_whole(paths.json, text + "\n")
    _write_whole(paths.html, page)
    return paths


def _redacted(section: Section, homes: tuple[str, ...]) -> Section:
    for note in section.figure.layout.annotations if section.figure is not None else ():
        note.text = redact(note.text, homes=homes)
    return Section(
        redact(section.title, homes=homes),
        [redact(paragraph, homes=homes) for paragraph in section.paragraphs],
        [{redact(k, homes=homes): redact(v, homes=homes) for k, v in row.items()} for row in section.table],
        section.figure,
    )


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def _render(title: str, summary: Sequence[str], sections: Sequence[Section], data: str) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("helpers.ledger", "templates"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["prose"] = _prose
    return environment.get_template("report.html.j2").render(
        title=title,
        summary=summary,
        sections=[(section, _figure_html(section, n)) for n, section in enumerate(sections)],
        plotly=get_plotlyjs() if any(s.figure is not None for s in sections) else "",
        # "</" would end the script element that holds the JSON.
        data=data.replace("</", "<\\/"),
    )


def _figure_html(section: Section, number: int) -> str:
    if section.figure is None:
        return ""
    return str(
        section.figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            div_id=f"figure-{number}",
            config={"displaylogo": False, "responsive": True},
        )
    )


def _prose(text: str) -> Markup:
    """A paragraph as HTML: escaped, with `names in backticks` as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
