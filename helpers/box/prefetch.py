"""Receiving goes on while what came before is hashed and written."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator

_DEPTH = 16
"""Lists of blocks that wait at most; with at most 2 MiB in each that bounds the memory."""


class Prefetched(Iterator[list[bytes]]):
    """What a generator of lists of blocks gives, which runs in a thread of its own. Close it when done, also half-way.

    An exception of the generator is raised here after all the blocks that came before it.
    """

    def __init__(self, blocks: Generator[list[bytes]]) -> None:
        self._blocks = blocks
        self._queue: queue.Queue[list[bytes] | BaseException | None] = queue.Queue(_DEPTH)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="box-receive", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        last: BaseException | None = None
        try:
            with contextlib.closing(self._blocks):
                for block in self._blocks:
                    self._put(block)
                    if self._stop.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - raised where the blocks are read
            last = error
        self._put(last)

    def _put(self, item: list[bytes] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def __next__(self) -> list[bytes]:
        item = self._queue.get()
        if isinstance(item, list):
            return item
        self._queue.put(item)  # the end stays the end
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        """End the generator too."""
        self._stop.set()
        self._thread.join()
