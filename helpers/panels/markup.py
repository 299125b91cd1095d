"""HTML of panels and their static twins: escaped, with the front end's own colours, nothing fetched. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

TEXT = "color:var(--jp-content-font-color1,inherit)"
_LINE = "1px solid var(--jp-border-color2,#ccc)"
_CELL = (
    f"text-align:left;vertical-align:top;padding:.2em .8em .2em 0;border-bottom:{_LINE};"
    "font-variant-numeric:tabular-nums"
)
# Of a column with something longer than any word, such as a hash: it may be broken, and its words keep some room.
_LONG = ";overflow-wrap:anywhere;min-width:8em"
WORD = 24
_TABLE = f"border-collapse:collapse;margin:.3em 0 .8em;line-height:1.4;{TEXT}"
_PRE = (
    "overflow:auto;margin:.3em 0;padding:.4em .6em;font-size:12px;line-height:1.4;white-space:pre-wrap;"
    "overflow-wrap:anywhere;"
    f"background:var(--jp-layout-color2,#f3f3f3);border:{_LINE};{TEXT}"
)


def table(rows: Sequence[Mapping[str, object]], *, caption: str) -> str:
    """A table with a caption; all rows have the columns of the first. An empty one says so."""
    if not rows:
        return paragraph(f"{caption}: none")
    head = "".join(f'<th scope="col" style="{_CELL};font-weight:600">{escape(str(name))}</th>' for name in rows[0])
    styles = [_CELL + (_LONG if _longest(row[name] for row in rows) > WORD else "") for name in rows[0]]
    body = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{style}">{text(cell)}</td>' for style, cell in zip(styles, row.values(), strict=True))
        + "</tr>"
        for row in rows
    )
    title = f'<caption style="text-align:left;font-weight:600;padding:.2em 0;{TEXT}">{escape(caption)}</caption>'
    inner = f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div style="overflow-x:auto"><table style="{_TABLE}">{inner}</table></div>'


def _longest(cells: Iterable[object]) -> int:
    """Characters of the longest word."""
    return max((len(word) for cell in cells for word in re.split(r"[\s-]", str(cell))), default=0)


def text(value: object) -> str:
    """A value as it stands in a cell; lines stay lines, and `names in backticks` are code."""
    escaped = escape("" if value is None else str(value))
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escaped).replace("\n", "<br>")


def paragraph(words: str) -> str:
    return f'<p style="margin:.3em 0;line-height:1.4;{TEXT}">{text(words)}</p>'


def heading(words: str, level: int = 3) -> str:
    return (
        f'<h{level} style="margin:.5em 0 .2em;font-size:{1.6 - 0.12 * level:.2f}em;{TEXT}">{escape(words)}</h{level}>'
    )


def block(words: str, *, label: str, height: str = "18em") -> str:
    """Text as it is, such as a log or a command. It can be scrolled with the keyboard, and has a name for readers."""
    return f'<pre {_named(label)} style="{_PRE};max-height:{height}">{escape(words)}</pre>'


def folded(summary: str, inner: str, *, shown: bool = False) -> str:
    """Something that can be folded away; ``inner`` is HTML."""
    return f'<details{" open" if shown else ""} style="{TEXT}"><summary>{escape(summary)}</summary>{inner}</details>'


def diff(lines: Sequence[str], *, label: str) -> str:
    """A unified diff: added and removed lines have their sign, and a ground in blue and orange."""
    grounds = {"+": "rgba(0,114,178,.20)", "-": "rgba(213,94,0,.22)"}
    rows = []
    for line in lines:
        ground = "" if line.startswith(("+++", "---")) else grounds.get(line[:1], "")
        weight = ";font-weight:600" if line.startswith(("+++", "---", "@@")) else ""
        style = f"display:block;min-height:1.2em{weight}" + (f";background:{ground}" if ground else "")
        rows.append(f'<span style="{style}">{escape(line)}</span>')
    style = f"{_PRE};max-height:24em"
    return f'<pre {_named(label)} style="{style}">{"".join(rows)}</pre>'


def _named(label: str) -> str:
    """Attributes that let the keyboard scroll an element, and say its name."""
    return f'tabindex="0" role="region" aria-label="{escape(label)}"'
