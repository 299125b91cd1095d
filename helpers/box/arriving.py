"""One file of a folder's stream on its way: its own bytes are sent, the others are copied from files that are here."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.copying import copy_range
from helpers.box.frames import Frame
from helpers.box.hashing import local_hash
from helpers.box.listing import Entry, Listing
from helpers.box.partial import Partial, local_problem
from helpers.box.pulling import changed

if TYPE_CHECKING:
    from helpers.box.box import Box


class Arriving:
    """Opened before its frame comes, so that what an earlier pull left of it can be named in the request.

    Attributes:
        index: its number in the listing. frame: the box's plan for it, once it has come.
        digest: over its own bytes, as the box's is.
    """

    def __init__(self, box: Box, listing: Listing, entry: Entry, index: int, target: Path) -> None:
        self.index, self.entry = index, entry
        self._box, self._listing = box, listing
        source = f"{box.user}@{box.host}:{box.port}:{listing.path(entry)}"
        self.partial = Partial(target, source, entry.size, entry.mtime)
        self.digest = self.partial.digest
        self.frame: Frame | None = None
        self._own = 0
        self._holes: deque[tuple[int, int]] = deque()
        self._copies: list[tuple[Future[None], int]] = []

    def have(self) -> tuple[int, str]:
        """How much is here, and counted how (see remote/sending.py)."""
        return (self._own, "raw") if self.frame is not None else (self.partial.offset, "plain")

    def begin(self, frame: Frame, pool: Executor, where: Callable[[int], Path]) -> int:
        """Take the plan and start what can be copied; ``where`` tells where the bytes of an earlier file lie.

        Returns:
            bytes that need not travel.
        """
        if self.frame is not None:
            if frame.segments != self.frame.segments or frame.skip != self._own:
                raise changed(self._box, self._listing.root, [f"{self.entry.name}: its tensors"])
            return 0
        self.frame, self._own = frame, frame.skip
        if frame.is_plain and frame.skip == self.partial.offset:
            return frame.skip
        self.partial.scatter()
        self.digest = hashlib.sha256()
        target = self.partial.file.fileno()
        for segment in frame.segments:
            if segment.source < 0:
                self._holes.append((segment.offset, segment.length))
                continue
            source = os.open(where(segment.source), os.O_RDONLY)
            copy = (source, segment.source_offset, target, segment.offset, segment.length)
            self._copies.append((pool.submit(copy_range, *copy), source))
        return frame.size - frame.own

    def write(self, piece: memoryview) -> None:
        """Put ``piece``, the next of the file's own bytes, where it belongs."""
        self._own += len(piece)
        if not self._holes:
            self.partial.write(piece)
            return
        self.digest.update(piece)
        while piece:
            offset, length = self._holes.popleft()
            count = min(len(piece), length)
            self.partial.write_at(piece[:count], offset)
            piece = piece[count:]
            if count < length:
                self._holes.appendleft((offset + count, length - count))

    def finish(self, twin: str | None) -> str:
        """Wait for the copies, and give the file its name.

        Args:
            twin: the sha256 of a file that this one is a copy of as a whole, where there is one.

        Returns:
            the file's sha256.
        """
        with self.partial:
            try:
                for copy, _ in self._copies:
                    copy.result()
            except OSError as error:
                raise local_problem(self.partial.target, error) from error
            if not self._copies:
                digest = self.digest.hexdigest()
            else:
                digest = twin if twin is not None else local_hash(self.partial.part)
            self.partial.finish(self.entry.mode)
        return digest

    def leave(self) -> None:
        """Give up: what can be gone on with later is kept, the rest is thrown away."""
        for copy, source in self._copies:
            if copy.cancel():
                os.close(source)
        wait([copy for copy, _ in self._copies])
        self.partial.__exit__(None, None, None)
