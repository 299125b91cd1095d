"""Source text as an HTML table: line numbers beside highlighted code, styles inline, nothing fetched."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

_NUMBER = "text-align:right;opacity:.55;padding:0 1em 0 0;user-select:none;vertical-align:top"
_CODE = "text-align:left;padding:0"
# A `pre` and not its style alone: what turns a notebook into a page drops the white space that begins a line elsewhere.
_LINE = "margin:0;padding:0;border:0;background:none;font:inherit;white-space:pre;overflow:visible"
_TABLE = "font-family:monospace;border-collapse:collapse;line-height:1.35"


def code_table(file: str, lines: Sequence[tuple[int, str]]) -> str:
    """The numbered ``lines`` of ``file``. Neighbours are highlighted together, so that what spans lines is known."""
    try:
        lexer = get_lexer_for_filename(file, stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False, ensurenl=False)
    formatter = HtmlFormatter(noclasses=True, nowrap=True)
    rows: list[str] = []
    for _, group in itertools.groupby(enumerate(lines), key=lambda item: item[1][0] - item[0]):
        block = [numbered for _, numbered in group]
        text = "\n".join(text.replace("\r", "") for _, text in block)
        coloured = highlight(text, lexer, formatter).split("\n")
        if len(coloured) < len(block):  # a lexer that drops lines: as plain text, never under a wrong number
            coloured = [html.escape(line) for _, line in block]
        rows += [_row(number, code) for (number, _), code in zip(block, coloured, strict=False)]
    return f'<table style="{_TABLE}"><tbody>{"".join(rows)}</tbody></table>'


def _row(number: int, code: str) -> str:
    cell = f'<td style="{_CODE}"><pre style="{_LINE}">{code}</pre></td>'
    return f'<tr style="background:none"><td style="{_NUMBER}">{number}</td>{cell}</tr>'


def diff_block(lines: Sequence[str]) -> str:
    """A unified diff, its added and removed lines in colour."""
    colours = {"+": "#1a7f37", "-": "#cf222e", "@": "#6e7781"}
    spans = [f'<span style="color:{colours.get(line[:1], "inherit")}">{html.escape(line)}</span>' for line in lines]
    text = "\n".join(spans)
    return f'<pre style="line-height:1.35">{text}</pre>'
