"""Reads the stream of ``remote/sending.py``: lines of JSON, some with bytes after them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LONGEST_LINE = 64 << 20


class BrokenStream(Exception):
    """The stream ended, or is not what it should be."""


@dataclass(frozen=True)
class Begin:
    """A file of ``size`` bytes is the next; ``skip`` of the bytes sent for it were there already and do not come."""

    file: int
    size: int
    skip: int


@dataclass(frozen=True)
class Block:
    """``count`` bytes that belong to ``offset`` of a file, and ``also`` into other files: (file, offset).

    They come next, or, where ``is_here``, are in that file already.
    """

    file: int
    offset: int
    count: int
    also: tuple[tuple[int, int], ...]
    is_here: bool


@dataclass(frozen=True)
class End:
    """All of a file has been sent; sha256 is over its sent bytes."""

    file: int
    sha256: str


class FrameReader:
    """Takes records and counted bytes from an iterator of lists of blocks."""

    def __init__(self, blocks: Iterator[list[bytes]]) -> None:
        self._blocks = itertools.chain.from_iterable(blocks)
        self._rest = memoryview(b"")

    def record(self) -> Begin | Block | End:
        """The next record.

        Raises:
            BrokenStream: the stream ended, or holds something else.
        """
        line = self._line()
        try:
            raw: dict[str, Any] = json.loads(line)
            if "begin" in raw:
                return Begin(raw["begin"], raw["size"], raw["skip"])
            if "end" in raw:
                return End(raw["end"], raw["sha256"])
            kind = "data" if "data" in raw else "copy"
            also = tuple((file, offset) for file, offset in raw["also"])
            return Block(raw[kind], raw["at"], raw["bytes"], also, kind == "copy")
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
