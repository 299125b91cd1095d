"""Takes the place of a channel's receive buffer where much is to come: fewer copies and far fewer wake-ups.

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

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """At most ``nbytes``; nothing at the end.

        Raises:
            PipeTimeout: nothing came within ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._size or self._closed, timeout):
                raise PipeTimeout
            if self._total > _MUCH and not self._closed:
                self._changed.wait_for(lambda: self._size >= _ENOUGH or self._closed, _LITTLE_LONGER)
            if self._size > nbytes:
                whole = b"".join(self._blocks)
                self._blocks = deque([whole[nbytes:]])
                self._size -= nbytes
                return whole[:nbytes]
            return self._all()

    def empty(self) -> bytes:
        with self._changed:
            return self._all()

    def _all(self) -> bytes:
        data = self._blocks[0] if len(self._blocks) == 1 else b"".join(self._blocks)
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
