"""Bytes into lines of text, block by block, with bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

LONGEST = 1 << 16
"""Characters of a line that are held back at most; what is longer comes in pieces of this length."""


class LineSplitter:
    """Decodes UTF-8 incrementally (a character may be cut by a block's border) and splits at newlines.

    Bytes that are no UTF-8 become surrogates, which ``encode("utf-8", "surrogateescape")`` turns back.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""
        self._longest = longest

    def feed(self, block: bytes, *, final: bool = False) -> Iterator[str]:
        """The lines that ``block`` completes, without their newlines; at the end (``final``) also the last one."""
        *lines, self._rest = (self._rest + self._decoder.decode(block, final)).split("\n")
        yield from lines
        while len(self._rest) > self._longest:
            piece, self._rest = self._rest[: self._longest], self._rest[self._longest :]
            yield piece
        if final and self._rest:
            yield self._rest
            self._rest = ""
