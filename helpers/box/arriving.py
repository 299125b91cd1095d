"""One file of a folder's stream on its way: some of its bytes are sent, the others are those of files before it."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Executor, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.copying import copy_range
from helpers.box.frames import Plan, Segment
from helpers.box.listing import Entry, Listing
from helpers.box.partial import Partial, local_problem
from helpers.box.pulling import changed

if TYPE_CHECKING:
    from helpers.box.box import Box

_PASSING = 16
"""Blocks on their way to other files at most: with blocks of at most 2 MiB that bounds the memory."""


class Arriving:
    """A file that is being put together.

    A block that is sent for one file and belongs into seven more is written to all eight while it is in memory, to
    the others by the pool's threads; what had come before a plan was known is copied within the disk.

    Attributes:
        index: its number in the listing. plan: once it has come. digest: over its sent bytes, as the box's is.
    """

    def __init__(self, box: Box, listing: Listing, index: int, target: Path, pool: Executor) -> None:
        self.index = index
        self.entry: Entry = listing.entries[index]
        self._box, self._listing, self._pool = box, listing, pool
        source = f"{box.user}@{box.host}:{box.port}:{listing.path(self.entry)}"
        self.partial = Partial(target, source, self.entry.size, self.entry.mtime)
        self.digest = self.partial.digest
        self.plan: Plan | None = None
        self._sent = 0
        self._holes: deque[tuple[int, int]] = deque()
        self._takers: list[tuple[Arriving, Segment]] = []
        self._copies: list[tuple[Future[None], int]] = []
        self._passing: deque[Future[None]] = deque()

    def have(self) -> tuple[int, str]:
        """How much is here, and counted how (see remote/sending.py)."""
        return (self._sent, "raw") if self.plan is not None else (self.partial.offset, "plain")

    def begin(self, plan: Plan) -> int:
        """Take the plan; returns the bytes that need not travel."""
        if plan.size != self.entry.size:
            raise changed(self._box, self._listing.root, [f"{self.entry.name}: {plan.size} bytes"])
        if self.plan is not None:
            if plan.segments != self.plan.segments:
                raise changed(self._box, self._listing.root, [f"{self.entry.name}: its tensors"])
            return 0
        self.plan, self._sent = plan, plan.skip
        if not plan.is_plain or plan.skip != self.partial.offset:
            self.partial.scatter()
            self.digest = hashlib.sha256()
            self._holes.extend((part.offset, part.length) for part in plan.segments if part.source < 0)
        return plan.skip + plan.size - plan.own

    def give(self, taker: Arriving, segment: Segment) -> None:
        """Have ``segment`` of ``taker`` filled from this file: from what is here at once, then as it comes."""
        assert self.plan is not None
        self._takers.append((taker, segment))
        sent = self._sent
        for part in self.plan.segments:
            if part.source < 0 and sent > 0:
                taker.copy(self.partial.part, part.offset, min(sent, part.length), segment)
                sent -= part.length

    def copy(self, path: Path, start: int, length: int, segment: Segment) -> None:
        """Copy into ``segment`` what of it lies in ``length`` bytes at ``start`` of the file ``path``."""
        first = max(start, segment.source_offset)
        count = min(start + length, segment.source_offset + segment.length) - first
        if count <= 0:
            return
        source, target = os.open(path, os.O_RDONLY), self.partial.file.fileno()
        place = segment.offset + first - segment.source_offset
        self._copies.append((self._pool.submit(copy_range, source, first, target, place, count), source))

    def write(self, piece: memoryview) -> None:
        """Put ``piece``, the next of the sent bytes, where it belongs, here and in the files that share it."""
        if not self._holes:
            offset = self.partial.offset
            self.partial.write(piece)
            self._pass_on(piece, offset)
        else:
            self.digest.update(piece)
            rest = piece
            while rest:
                offset, length = self._holes.popleft()
                count = min(len(rest), length)
                self.partial.write_at(rest[:count], offset)
                self._pass_on(rest[:count], offset)
                rest = rest[count:]
                if count < length:
                    self._holes.appendleft((offset + count, length - count))
        self._sent += len(piece)

    def _pass_on(self, piece: memoryview, offset: int) -> None:
        if self._takers:
            self._passing.append(self._pool.submit(self._write_to_takers, piece, offset, tuple(self._takers)))
        if len(self._passing) > _PASSING:
            self._passing.popleft().result()

    def sent(self) -> None:
        """All of its bytes have come: see them to the other files too."""
        while self._passing:
            self._passing.popleft().result()

    @staticmethod
    def _write_to_takers(piece: memoryview, offset: int, takers: tuple[tuple[Arriving, Segment], ...]) -> None:
        for taker, segment in takers:
            first = max(offset, segment.source_offset)
            last = min(offset + len(piece), segment.source_offset + segment.length)
            if first < last:
                place = segment.offset + first - segment.source_offset
                taker.partial.write_at(piece[first - offset : last - offset], place)

    def finish(self) -> str | None:
        """Wait for the copies, and give the file its name.

        Returns:
            the file's sha256, where it is known without reading it again: it travelled as a whole.
        """
        assert self.plan is not None
        with self.partial:
            try:
                for copy, _ in self._copies:
                    copy.result()
            except OSError as error:
                raise local_problem(self.partial.target, error) from error
            self.partial.finish(self.entry.mode)
        return self.digest.hexdigest() if self.plan.is_plain else None

    def wait(self) -> None:
        """Give up what has not begun, and wait for what has: it writes to files that `leave` closes."""
        for copy, source in self._copies:
            if copy.cancel():
                os.close(source)
        wait([copy for copy, _ in self._copies] + list(self._passing))

    def leave(self) -> None:
        """After `wait`: what can be gone on with later is kept, the rest is thrown away."""
        self.partial.__exit__(None, None, None)
