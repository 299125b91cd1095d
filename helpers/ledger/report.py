"""Builds an investigation's report: report.json to re-check, and one HTML file that opens without a network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from helpers.figure_sentence import sentence_of
from helpers.ledger.markdown import render
from helpers.ledger.redaction import redact, redact_tree, tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = "workbook.report/1"
#: The chapter that explains the words; the top of the page leads to it.
GLOSSARY = "Words"
#: Characters: of a cell that stays on one line, of all such cells of a row, and of a word that is not broken.
LINE, LINE_ROOM, WORD = 20, 44, 14


@dataclass(frozen=True)
class Section:
    """One step of the story: prose, then a table or a figure.

    Attributes:
        paragraphs: plain text; each becomes a paragraph.
        table: column name -> value, a mapping a row; all rows have the same columns.
        figure: drawn below the table. said: what it shows, in words, below it; its own sentence where none is given.
        commands: lines to type, as they are.
    """

    title: str
    paragraphs: Sequence[str]
    table: Sequence[Mapping[str, str]] = ()
    figure: go.Figure | None = None
    commands: Sequence[str] = ()
    said: str = ""


@dataclass(frozen=True)
class ReportPaths:
    """Where a report was written."""

    html: Path
    json: Path
    markdown: Path | None = None


def write_report(
    folder: Path,
    *,
    title: str,
    summary: Sequence[str],
    sections: Sequence[Section],
    data: Mapping[str, Any],
    homes: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    markdown: bool = False,
) -> ReportPaths:
    """Writes ``report.json`` and ``report.html`` into `folder`; neither is ever half-written.

    Args:
        summary: the answer first: what was wrong, how it is known, what the fix gave.
        data: the content of report.json; embedded in the HTML as well.
        homes: folders of the box that appear as ``<box home>`` in all files.
        hosts: names of machines and logins that appear in none.
        markdown: also ``report.md``, for an issue tracker.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def clean(value: str) -> str:
        return redact(value, homes=homes, hosts=hosts)

    def drawn(value: str) -> str:
        return redact(value, homes=homes, hosts=hosts, markup=True)

    whole = redact_tree({"schema": SCHEMA, **data}, homes=homes, hosts=hosts)
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    # The parts and not the page: plotly's own script, whose text is none of ours, must stay as it is.
    chapters = [_redacted(section, clean, drawn) for section in sections]
    title, lines = clean(title), [clean(line) for line in summary]
    page = _render(title, lines, chapters, text)
    paths = ReportPaths(folder / "report.html", folder / "report.json", folder / "report.md" if markdown else None)
    _write_whole(paths.json, text + "\n")
    _write_whole(paths.html, page)
    if paths.markdown is not None:
        _write_whole(paths.markdown, render(title, lines, chapters))
    return paths


def _redacted(section: Section, clean: Callable[[str], str], drawn: Callable[[str], str]) -> Section:
    return Section(
        clean(section.title),
        [clean(paragraph) for paragraph in section.paragraphs],
        [{clean(k): clean(v) for k, v in row.items()} for row in section.table],
        None if section.figure is None else _redacted_figure(section.figure, drawn),
        [clean(line) for line in section.commands],
        clean(section.said or (sentence_of(section.figure) if section.figure is not None else "")),
    )


def _redacted_figure(figure: go.Figure, clean: Callable[[str], str]) -> go.Figure:
    """Names, hover texts and annotations may come from a log as well; the numbers stay as they are."""
    import plotly.graph_objects as go

    return go.Figure(tree(json.loads(figure.to_json()), clean))


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
    environment.filters["fits"] = _fits
    return environment.get_template("report.html.j2").render(
        title=title,
        summary=summary,
        glossary=GLOSSARY,
        sections=[(section, _figure_html(section, n)) for n, section in enumerate(sections)],
        plotly=get_plotlyjs() if any(s.figure is not None for s in sections) else "",
        # Any "<" could end the script element that holds the JSON, or open a comment in it.
        data=data.replace("<", "\\u003c"),
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


def _fits(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """A class a column: ``line`` where every cell stays on one line, ``word`` where no word has to be broken.

    A table that keeps to this is no wider than a narrow window: only so many columns may stay on one line.
    """
    kinds, room = [], LINE_ROOM
    for name in rows[0]:
        cells = [name, *(row[name] for row in rows)]
        longest = max(map(len, cells))
        if longest <= min(LINE, room):
            room -= longest
            kinds.append("line")
        else:
            words = (word for cell in cells for word in re.split(r"[\s-]", cell))
            kinds.append("word" if max(map(len, words)) <= WORD else "")
    return kinds


def _prose(text: str) -> Markup:
    """A paragraph as HTML: escaped, with `names in backticks` as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
