"""File descriptors on the event loop: reads and writes of pipes and terminals that wait without a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK = 1 << 17


class Descriptor:
    """A pipe's end or a terminal's master, read or written by one task at a time, which also closes it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._closed = False

    def fileno(self) -> int:
        return self._fd

    @property
    def closed(self) -> bool:
        return self._closed

    async def read(self) -> bytes:
        """The next bytes, at most CHUNK of them; empty at the end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                await _ready(loop.add_reader, loop.remove_reader, self._fd)
            except OSError:  # EIO: no process holds the terminal any more
                return b""

    async def write(self, data: bytes) -> None:
        """Writes all of it.

        Raises:
            OSError: nobody reads any more.
        """
        loop = asyncio.get_running_loop()
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await _ready(loop.add_writer, loop.remove_writer, self._fd)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._fd)


async def _ready(add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], object], fd: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    add(fd, wake)
    try:
        await future
    finally:
        remove(fd)
