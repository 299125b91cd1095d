"""Redaction of what a page shows: columns stay columns, and Markdown stays Markdown."""

from __future__ import annotations

import re
from html import unescape

from helpers.ledger.redaction import redact

_GAP = re.compile(r"( {2,})")
_CODE = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]+`)", re.S)


def redact_text(text: str, *, markup: bool = False) -> str:
    """A text in fixed-width characters, redacted. What stands in columns begins where it began, where there is room.

    Args:
        markup: it is HTML, with such a text in it.
    """
    clean = redact(text, markup=markup)
    old, new = text.split("\n"), clean.split("\n")
    if clean == text or len(old) != len(new):
        return clean
    return "\n".join(one if one == other else _columns(one, other, markup) for one, other in zip(old, new, strict=True))


def redact_markdown(text: str) -> str:
    """Markdown, redacted: its words for folders are words outside code as well, and no tags that a page drops."""
    pieces = _CODE.split(redact(text))
    marked = _CODE.split(redact(text, markup=True))
    if len(pieces) != len(marked):
        return redact(text, markup=True)
    return "".join(plain if at % 2 else safe for at, (plain, safe) in enumerate(zip(pieces, marked, strict=True)))


def _columns(old: str, new: str, markup: bool) -> str:
    """The cells of the new line at the places of the old one's; at least two spaces lie between two."""
    before, after = _GAP.split(old), _GAP.split(new)
    if len(before) != len(after):
        return new

    def width(cell: str) -> int:
        return len(unescape(re.sub(r"<[^>]*>", "", cell)) if markup else cell)

    line, place = "", 0  # place: where the next cell of the old line began
    for was, now in zip(before, after, strict=True):
        if _GAP.fullmatch(was):
            line += " " * (max(2, place + len(was) - width(line)) if line else len(was))
        else:
            line += now
        place += width(was)
    return line
