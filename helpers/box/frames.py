"""Reads the stream of ``remote/sending.py``: lines of JSON with bytes between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LONGEST_LINE = 64 << 20


class BrokenStream(Exception):
    """The stream ended, or is not what it should be."""


@dataclass(frozen=True)
class Segment:
    """``length`` bytes at ``offset``: sent in the stream (source -1), or copied from another file of the list."""

    offset: int
    length: int
    source: int
    source_offset: int


@dataclass(frozen=True)
class Frame:
    """One file of the stream; ``skip`` of its sent bytes were there already and do not come again."""

    file: int
    size: int
    segments: tuple[Segment, ...]
    skip: int

    @property
    def own(self) -> int:
        """Bytes that are sent, not copied."""
        return sum(segment.length for segment in self.segments if segment.source < 0)

    @property
    def is_plain(self) -> bool:
        return self.own == self.size

    def is_copy_of(self) -> int:
        """The file that this one equals from its first byte to its last, or -1."""
        one = self.segments[0] if len(self.segments) == 1 else Segment(0, -1, -1, 0)
        return one.source if one.length == self.size and one.source_offset == 0 else -1


class FrameReader:
    """Takes lines and counted bytes from an iterator of blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def _more(self) -> memoryview:
        block = next(self._blocks, None)
        if block is None:
            raise BrokenStream("the stream ended early")
        return memoryview(block)

    def line(self) -> dict[str, Any]:
        """The next line, as the JSON object that it holds."""
        line = bytearray()
        while True:
            head, newline, _ = bytes(self._rest[:65536]).partition(b"\n")
            line += head
            if newline:
                self._rest = self._rest[len(head) + 1 :]
                break
            self._rest = self._rest[len(head) :] or self._more()
            if len(line) > _LONGEST_LINE:
                raise BrokenStream("a line without an end")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise BrokenStream(f"no JSON: {bytes(line[:80])!r}") from error
        return answer

    def frame(self) -> Frame:
        """The next file's frame."""
        raw = self.line()
        segments = tuple(Segment(*item) for item in raw["segments"])
        return Frame(raw["file"], raw["size"], segments, raw["skip"])

    def take(self, count: int) -> Iterator[memoryview]:
        """Exactly ``count`` bytes, in pieces as they come."""
        while count:
            if not len(self._rest):
                self._rest = self._more()
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece
