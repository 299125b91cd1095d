"""Finds what the files of a folder share: blocks of one tensor that are equal, byte for byte."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remote.near_data import Refused, read_header

BLOCK = 1 << 20
CACHED = 1 << 18
"""Bytes that are compared with all the other files before the next: they stay in the processor's cache meanwhile."""
AHEAD = 64
"""Later files that are looked at for equal blocks; each is open at the other end."""
_MEMCMP = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Block(NamedTuple):
    """``size`` bytes at ``offset`` of ``file``, and where other files hold the same: (file, offset)."""

    file: int
    offset: int
    size: int
    also: tuple[tuple[int, int], ...]

    def part(self, start: int, count: int) -> Block:
        """``count`` bytes of it, from ``start``."""
        also = tuple((file, offset + start) for file, offset in self.also)
        return Block(self.file, self.offset + start, count, also)


class Mapped:
    """A file mapped into memory.

    Attributes:
        layout: (name, offset, length) of its parts, in order and without a gap: a safetensors file's header and
            tensors (named with dtype and shape); any other file is one part. A gap between tensors has no name.
        where: of each named part, its offset.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = memoryview(b"")
        self.address = 0
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            self.size, self.inode = status.st_size, (status.st_dev, status.st_ino)
            if self.size:
                # A private writable mapping, since ctypes gives the address of nothing less; nothing is written.
                mapping = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_COPY)
                self.data = memoryview(mapping)
                self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self.layout = list(_layout(path, self.size))
        self.where = {name: offset for name, offset, _ in self.layout if name}


def _layout(path: Path, size: int) -> Iterator[tuple[str, int, int]]:
    parts = {f"whole {size}": (0, size)} if size else {}
    if path.suffix == ".safetensors":
        with contextlib.suppress(Refused):
            start, header = read_header(path)
            parts = {f"header {start}": (0, start)}
            for name, entry in header.items():
                first, last = entry["data_offsets"]
                if last > first:
                    parts[f"tensor {name} {entry['dtype']} {entry['shape']}"] = (start + first, last - first)
    at = 0
    for name, (offset, length) in sorted(parts.items(), key=lambda item: item[1]):
        if offset < at:
            continue  # overlapping tensors: what was covered is covered
        if offset > at:
            yield "", at, offset - at
        yield name, offset, length
        at = offset + length
    if at < size:
        yield "", at, size - at


class Walk:
    """Goes through the files in order, and finds for each block which later files hold the same.

    Attributes:
        shared: of each wanted file, the blocks (part, number) that come with files before it.
    """

    def __init__(self, files: list[Mapped], want: set[int]) -> None:
        self.files = files
        self.want = want
        self.shared: list[set[tuple[str, int]]] = [set() for _ in files]

    def blocks(self, index: int) -> Iterator[Block]:
        """The blocks of file ``index`` that have not come with one before it; for one not wanted, those of use."""
        file, wanted = self.files[index], index in self.want
        last = min(len(self.files), index + 1 + AHEAD)
        later = [other for other in range(index + 1, last) if other in self.want]
        run: Block | None = None
        for name, start, length in file.layout:
            takers = [other for other in later if name in self.files[other].where]
            for number, at in enumerate(range(0, length, BLOCK)):
                if (name, number) in self.shared[index]:
                    continue
                count = min(BLOCK, length - at)
                others = [(other, self.files[other].where[name] + at) for other in takers]
                also = self._same(index, start + at, count, others, (name, number))
                if wanted or also:
                    block = Block(index, start + at, count, also)
                    if run is not None and (longer := _joined(run, block)):
                        run = longer
                        continue
                    if run is not None:
                        yield run
                    run = block
        if run is not None:
            yield run
        self.shared[index].clear()

    def _same(
        self, index: int, offset: int, count: int, others: list[tuple[int, int]], block: tuple[str, int]
    ) -> tuple[tuple[int, int], ...]:
        """Those of ``others`` that hold the same ``count`` bytes and have not got them with a file before."""
        mine = self.files[index].address + offset
        left = [(other, at) for other, at in others if block not in self.shared[other]]
        for step in range(0, count if left else 0, CACHED):
            here, length = mine + step, min(CACHED, count - step)
            left = [(o, at) for o, at in left if not _MEMCMP(here, self.files[o].address + at + step, length)]
        for other, _ in left:
            self.shared[other].add(block)
        return tuple(left)


def _joined(one: Block, two: Block) -> Block | None:
    """Both as one block, where the second follows the first in every file; small tensors travel together so."""
    if one.offset + one.size != two.offset or one.size + two.size > BLOCK:
        return None
    if tuple((file, offset + one.size) for file, offset in one.also) != two.also:
        return None
    return Block(one.file, one.offset, one.size + two.size, one.also)
