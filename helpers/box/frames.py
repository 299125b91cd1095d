"""Reads the stream of ``remote/sending.py``: lines of JSON, some with bytes after them."""

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
    """``length`` bytes at ``offset``: sent in the stream (source -1), or the same as those of another file."""

    offset: int
    length: int
    source: int
    source_offset: int


@dataclass(frozen=True)
class Plan:
    """How one file is put together; ``skip`` of its sent bytes were there already and do not come again."""

    file: int
    size: int
    segments: tuple[Segment, ...]
    skip: int

    @property
    def own(self) -> int:
        """Bytes that are sent, not taken from other files."""
        return sum(segment.length for segment in self.segments if segment.source < 0)

    @property
    def is_plain(self) -> bool:
        return self.own == self.size


@dataclass(frozen=True)
class Data:
    """``count`` bytes of a file follow in the stream; `FrameReader.take` gives them."""

    file: int
    count: int


@dataclass(frozen=True)
class End:
    """All of a file has been sent; sha256 is over its sent bytes."""

    file: int
    sha256: str


class FrameReader:
    """Takes records and counted bytes from an iterator of blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def record(self) -> Plan | Data | End:
        """The next record.

        Raises:
            BrokenStream: the stream ended, or holds something else.
        """
        line = self._line()
        try:
            raw: dict[str, Any] = json.loads(line)
            if "plan" in raw:
                segments = tuple(Segment(*item) for item in raw["segments"])
                return Plan(raw["plan"], raw["size"], segments, raw["skip"])
            return Data(raw["data"], raw["bytes"]) if "data" in raw else End(raw["end"], raw["sha256"])
        except (ValueError, KeyError, TypeError) as error:
            raise BrokenStream(f"no record: {line[:80]!r}") from error

    def take(self, count: int) -> Iterator[memoryview]:
        """Exactly ``count`` bytes, in pieces as they come."""
        while count:
            if not len(self._rest):
                self._rest = self._more()
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece

    def _line(self) -> bytes:
        line = bytearray()
        while True:
            head, newline, _ = bytes(self._rest[:4096]).partition(b"\n")
            line += head
            if newline:
                self._rest = self._rest[len(head) + 1 :]
                return bytes(line)
            self._rest = self._rest[len(head) :]
            if not len(self._rest):
                self._rest = self._more()
            if len(line) > _LONGEST_LINE:
                raise BrokenStream("a line without an end")

    def _more(self) -> memoryview:
        block = next(self._blocks, None)
        if block is None:
            raise BrokenStream("the stream ended early")
        return memoryview(block)
