"""One file of a folder's stream on its way: some of its bytes are sent, the others are those of files before it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.frames import Begin, BrokenStream
from helpers.box.listing import Entry, Listing
from helpers.box.partial import Partial
from helpers.box.pulling import changed

if TYPE_CHECKING:
    from helpers.box.box import Box


class Arriving:
    """A file that is being put together.

    As long as all its bytes are sent, it grows from its beginning, and can be gone on with by a later pull. With the
    first block that comes with another file it is written in no order.

    Attributes:
        index: its number in the listing. digest: over its sent bytes, as the box's is.
    """

    def __init__(self, box: Box, listing: Listing, index: int, target: Path) -> None:
        self.index = index
        self.entry: Entry = listing.entries[index]
        self._box, self._listing = box, listing
        source = f"{box.user}@{box.host}:{box.port}:{listing.path(self.entry)}"
        self.partial = Partial(target, source, self.entry.size, self.entry.mtime)
        self.digest = self.partial.digest
        self._sent = 0
        self._begun = self._scattered = False

    def have(self) -> tuple[int, str]:
        """How much of what is sent is here, and counted how (see remote/sending.py)."""
        return (self._sent, "raw") if self._begun else (self.partial.offset, "plain")

    def begin(self, record: Begin) -> int:
        """Its own bytes come next; returns how many are here from an earlier pull."""
        if record.size != self.entry.size:
            raise changed(self._box, self._listing.root, [f"{self.entry.name}: {record.size} bytes"])
        if self._begun:
            if record.skip != self._sent:
                raise BrokenStream(f"file {self.index} goes on at {record.skip}, not at {self._sent}")
            return 0
        self._begun, self._sent = True, record.skip
        if record.skip != self.partial.offset:
            self.scatter()
        return record.skip

    def scatter(self) -> None:
        """From now on in no order. What is sent has not come yet, or not been taken."""
        if not self._scattered:
            self._scattered = True
            self.partial.scatter()
            self.digest = hashlib.sha256()

    def write(self, pieces: Sequence[memoryview], offset: int) -> None:
        """Put ``pieces``, the next of the sent bytes, where they belong."""
        if self._scattered:
            for piece in pieces:
                self.digest.update(piece)
            self.partial.write_at(pieces, offset)
        else:
            if offset != self.partial.offset:
                raise BrokenStream(f"file {self.index} goes on at {offset}, not at {self.partial.offset}")
            self.partial.write(pieces)
        self._sent += sum(map(len, pieces))

    def finish(self) -> str | None:
        """Give the file its name: all that belongs into it has been written.

        Returns:
            the file's sha256, where it is known without reading it again: it travelled as a whole.
        """
        with self.partial:
            self.partial.finish(self.entry.mode)
        return self.digest.hexdigest() if self._sent == self.entry.size else None

    def leave(self) -> None:
        """Give it up: what can be gone on with later is kept, the rest is thrown away."""
        self.partial.__exit__(None, None, None)
