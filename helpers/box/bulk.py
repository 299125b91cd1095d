"""Takes the place of a channel's receive buffer where much is to come: no copies, and far fewer wake-ups.

paramiko's own copies each packet into one array and out of it again, and wakes the reader for each, which in Python
costs as much as decrypting it.
"""

from __future__ import annotations

import threading
from collections import deque

from paramiko.buffered_pipe import PipeTimeout

_MUCH = 1 << 20
"""Bytes after which a stream counts as a long one."""
_ENOUGH = 1 << 18
"""Bytes of a long stream that are worth waking up for; for less, the reader waits a little longer."""
_LITTLE_LONGER = 0.002


class Batch:
    """Blocks that came one after the other; its length is that of all of them, which is what `Channel.recv` asks."""

    def __init__(self, blocks: list[bytes]) -> None:
        self.blocks = blocks
        self._size = sum(map(len, blocks))

    def __len__(self) -> int:
        return self._size


class BulkBuffer:
    """What `paramiko.Channel` asks of a receive buffer (see `paramiko.buffered_pipe.BufferedPipe`)."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._blocks: deque[bytes] = deque()
        self._size = self._total = 0
        self._closed = False

    def feed(self, data: bytes) -> None:
        """Called by the transport's thread for each packet."""
        with self._changed:
            first = self._size == 0
            self._blocks.append(data)
            self._size += len(data)
            self._total += len(data)
            if first or self._size >= _ENOUGH:
                self._changed.notify()

    def read(self, nbytes: int, timeout: float | None = None) -> Batch:
        """At most ``nbytes``; nothing at the end.

        Raises:
            PipeTimeout: nothing came within ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._size or self._closed, timeout):
                raise PipeTimeout
            if self._total > _MUCH and not self._closed:
                self._changed.wait_for(lambda: self._size >= _ENOUGH or self._closed, _LITTLE_LONGER)
            taken, left = [], nbytes
            while left and self._blocks:
                block = self._blocks.popleft()
                if len(block) > left:
                    self._blocks.appendleft(block[left:])
                    block = block[:left]
                taken.append(block)
                left -= len(block)
            self._size -= nbytes - left
            return Batch(taken)

    def empty(self) -> bytes:
        with self._changed:
            data = b"".join(self._blocks)
            self._blocks.clear()
            self._size = 0
            return data

    def read_ready(self) -> bool:
        with self._changed:
            return self._size > 0

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        return self._size
