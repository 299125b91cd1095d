"""A report as Markdown for an issue tracker: the same chapters, figures by their captions and sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.ledger.report import Section


def render(title: str, summary: Sequence[str], sections: Sequence[Section]) -> str:
    """The page. What came from a log or a prompt cannot become HTML, a link, a mention or a heading.

    >>> print(render("Why <b>?", ["Because of `a|b`."], []))
    # Why &lt;b>?
    <BLANKLINE>
    * Because of `a|b`.
    <BLANKLINE>
    """
    parts = [f"# {plain(title)}", "\n".join(f"* {plain(line)}" for line in summary)]
    for section in sections:
        parts += [f"## {plain(section.title)}", *map(plain, section.paragraphs)]
        if section.commands:
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", "\n".join(section.commands)) or [""]))
            parts.append("\n".join([f"{fence}sh", *section.commands, fence]))
        if section.table:
            parts.append(table(section.table))
        if section.figure is not None:
            parts += [plain(section.said), "*The figure is in report.html.*"]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(rows: Sequence[object]) -> str:
    """Rows of one set of columns as a Markdown table."""
    mappings = [row for row in rows if isinstance(row, dict)]
    columns = list(mappings[0])
    lines = [columns, ["---"] * len(columns), *([row[name] for name in columns] for row in mappings)]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def plain(text: str) -> str:
    """One line in which only `code` is markup."""
    pieces = " ".join(text.split()).split("`")
    if len(pieces) % 2 == 0:  # a lone backtick is one
        pieces = [*pieces[:-2], pieces[-2] + "\\`" + pieces[-1]]
    return "`".join(piece if at % 2 else _escaped(piece) for at, piece in enumerate(pieces))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;")
    text = re.sub(r"([\\*_\[\]~])", r"\\\1", text)
    return re.sub(r"^(\s*)([#>+-]|\d+\.)(?=\s|$)", r"\1\\\2", text)
