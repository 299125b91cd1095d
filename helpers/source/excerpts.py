"""Lines of one file on a box, with what makes them evidence: which file by its hash, of which version, how found."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from helpers.box.result import printable

#: A line is cut after so many characters where it is shown; records hold it whole.
SHOWN = 240


@dataclass(frozen=True)
class Line:
    """One line of a file: its name as asked for, its number from 1, its text without the newline."""

    file: str
    line: int
    text: str

    def record(self) -> dict[str, Any]:
        """``{file, line, text}``, whole; bytes that are no UTF-8 as U+FFFD."""
        return {"file": printable(self.file), "line": self.line, "text": printable(self.text)}


@dataclass(frozen=True)
class Excerpt:
    """Lines of one file: a range (`show`), or those that match (`grep`).

    Attributes:
        box: where it was read. checkout: the folder that relative names start from. version: SGLang's there.
        file: relative to the checkout, or absolute; ``sha256``: of the whole file at that moment.
        lines: in the file's order. total: lines in the file, None where they were not counted.
        command: the same by the command line.
    """

    box: str
    checkout: str
    version: str | None
    file: str
    sha256: str
    lines: tuple[Line, ...]
    command: str
    total: int | None = None

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def numbers(self) -> list[int]:
        """The lines' numbers."""
        return [line.line for line in self.lines]

    @property
    def text(self) -> str:
        """The lines as they are, without their numbers."""
        return "\n".join(line.text for line in self.lines)

    @property
    def permalink(self) -> str:
        """A name for these lines that stays true: engine, version, file, lines, and the hash of the whole file."""
        first, last = (self.lines[0].line, self.lines[-1].line) if self.lines else (0, 0)
        place = f"#L{first}-L{last}" if self.lines else ""
        name = printable(self.file) if self.file.startswith("/") else f"sglang=={self.version}/{printable(self.file)}"
        return f"{name}@sha256:{self.sha256}{place}"

    def record(self) -> dict[str, Any]:
        """Everything, ready for JSON: evidence for the ledger."""
        return {
            "kind": "source",
            "box": self.box,
            "checkout": printable(self.checkout),
            "version": self.version,
            "file": printable(self.file),
            "sha256": self.sha256,
            "permalink": self.permalink,
            "command": printable(self.command),
            "lines": [line.record() for line in self.lines],
        }

    def __str__(self) -> str:
        width = len(str(self.lines[-1].line)) if self.lines else 1
        return "\n".join(f"{line.line:>{width}}  {shown(line.text)}" for line in self.lines)

    def __repr__(self) -> str:
        return f"{self.permalink}\n{self}"

    def _repr_html_(self) -> str:
        from helpers.source.highlighting import code_table

        table = code_table(self.file, [(line.line, shown(line.text)) for line in self.lines])
        where = f"{self.box}:{printable(self.checkout)}" if not self.file.startswith("/") else self.box
        return (
            f"<div>{table}<small><code>{html.escape(self.permalink)}</code><br>"
            f"{html.escape(where)} · <code>{html.escape(printable(self.command))}</code></small></div>"
        )


def shown(text: str, limit: int = SHOWN) -> str:
    """``text`` as a terminal or a page may have it: control characters visible, a long line cut."""
    visible = "".join(chr(0x2400 + ord(c)) if c < " " and c != "\t" else c for c in printable(text[: limit + 1]))
    visible = visible.replace("\x7f", "\u2421")
    return visible if len(text) <= limit else f"{visible[:limit]} … {len(text) - limit} characters more"
