"""Names as a screen and a shell may have them: what somebody else chose can neither paint nor run anything.

>>> visible("a\\x1b[31m\\n"), as_typed("a b"), as_typed("$(id)"), as_typed("a\\nb")
('a␛[31m␊', "'a b'", "'$(id)'", "$'a\\\\nb'")
"""

from __future__ import annotations

import shlex
from pathlib import PurePath

_SIGNS = {number: 0x2400 + number for number in range(0x20) if chr(number) != "\t"} | {0x7F: 0x2421}
_SIGNS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
_LINES = {number: sign for number, sign in _SIGNS.items() if chr(number) != "\n"}


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with every control character (a colour, a newline, an order of reading) as a sign for it.

    Args:
        lines: leave the ends of lines as they are.
    """
    return text.translate(_LINES if lines else _SIGNS)


def as_typed(word: str | PurePath) -> str:
    """A path or a name as it has to be typed into a shell, on one line: for commands that a message suggests."""
    text = str(word)
    if visible(text) == text:
        return shlex.quote(text)
    escaped = "".join(_escaped(sign) for sign in text)
    return f"$'{escaped}'"


def _escaped(sign: str) -> str:
    if sign in "\\'":
        return f"\\{sign}"
    if visible(sign) == sign:
        return sign
    return {"\n": "\\n", "\r": "\\r"}.get(sign) or (
        f"\\x{ord(sign):02x}" if ord(sign) < 0x80 else f"\\u{ord(sign):04x}"
    )
