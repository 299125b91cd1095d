"""Sends a folder's files as one stream in which equal bytes travel once.

Eight tensor-parallel ranks write eight files whose tensors are mostly copies of each other. Tensors of one name, dtype
and shape are compared block by block, byte for byte, as they are sent; a block of a later file that is the same is
named with it, and not sent again. The stream is lines of JSON, some with bytes after them:
``{"begin": i, "size": n, "skip": k}``: file i is the next; ``k`` of the bytes that are sent for it do not come again;
``{"data": i, "at": offset, "bytes": n, "also": [[j, offset], ...]}`` and n bytes: they belong into i, and into each j;
``{"copy": i, "at": offset, "bytes": n, "also": [...]}``: the same, of a part of file i that is there already;
``{"end": i, "sha256": "<of all bytes that were sent for i>"}``: what is missing of i came with files before it.
Files come in the order of the listing. Called as ``python3 -m remote.sending`` with the request on stdin; standard
library only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from remote.sharing import Block, Mapped, Walk

READY = 16
"""Blocks that are compared before they are sent."""
PIPE = 1 << 20


class Begin(NamedTuple):
    file: int
    skip: int


class End(NamedTuple):
    file: int


class Copy(NamedTuple):
    """A block that is there already, and goes into other files."""

    block: Block


class Sender:
    """Writes the stream."""

    def __init__(self, request: dict[str, Any]) -> None:
        root = Path(request["root"])
        self.files = [Mapped(root / name) for name in request["files"]]
        self.want = set(request["want"])
        self.passed = int(request["passed"])
        self.skip_at, self.skip_count, self.skip_kind = request["skip"]
        self.skip = 0
        self.ready: queue.Queue[Begin | Block | Copy | End | BaseException | None] = queue.Queue(READY)

    def run(self) -> None:
        threading.Thread(target=self._look_ahead, daemon=True).start()
        hasher, pipe = Hasher(), Pipe(self.files)
        hasher.start()  # beside the sending: neither holds Python's lock
        while (item := self.ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Begin):
                self.skip = item.skip
                _line({"begin": item.file, "size": self.files[item.file].size, "skip": item.skip})
            elif isinstance(item, Copy):
                _line(_head("copy", item.block))
            elif isinstance(item, End):
                _line({"end": item.file, "sha256": hasher.result()})
            else:
                hasher.add(self.files[item.file].data[item.offset : item.offset + item.size])
                self._send(item, pipe)

    def _send(self, block: Block, pipe: Pipe) -> None:
        if skipped := min(self.skip, block.size):
            self.skip -= skipped
            if self.skip_kind == "plain" and block.also:
                _line(_head("copy", block.part(0, skipped)))
            block = block.part(skipped, block.size - skipped)
        if block.size:
            _line(_head("data", block))
            pipe.send(block)

    def _look_ahead(self) -> None:
        try:
            walk = Walk(self.files, self.want)
            for index in range(len(self.files)):
                for item in self._of_file(walk, index):
                    self.ready.put(item)
            self.ready.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where it is sent
            self.ready.put(error)

    def _of_file(self, walk: Walk, index: int) -> Iterator[Begin | Block | Copy | End]:
        if index not in self.want:
            for block in walk.blocks(index):
                if index >= self.passed:
                    yield Copy(block)
            return
        applies = index == self.skip_at and (self.skip_kind == "raw" or not walk.shared[index])
        yield Begin(index, self.skip_count if applies else 0)
        yield from walk.blocks(index)
        yield End(index)


class Hasher(threading.Thread):
    """The sha256 of what is sent for one file after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._parts: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            digest = hashlib.sha256()
            while (part := self._parts.get()) is not None:
                digest.update(part)
            self._results.put(digest.hexdigest())

    def add(self, part: memoryview) -> None:
        self._parts.put(part)

    def result(self) -> str:
        """Of all that was added since the last result."""
        self._parts.put(None)
        return self._results.get()


class Pipe:
    """Sends parts of files to stdout: within the kernel where that can be, without a copy through this process."""

    def __init__(self, files: list[Mapped]) -> None:
        self._files = files
        self._index, self._source = -1, -1
        self._kernel = hasattr(os, "sendfile")
        with contextlib.suppress(OSError):  # no pipe, or not on Linux
            fcntl.fcntl(1, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE)

    def send(self, block: Block) -> None:
        self._open(block.file)
        offset, count = block.offset, block.size
        while count:
            done = self._some(offset, count)
            offset, count = offset + done, count - done

    def _open(self, index: int) -> None:
        if index == self._index:
            return
        if self._source >= 0:
            os.close(self._source)
        self._index, self._source = index, -1
        if self._kernel:
            self._source = os.open(self._files[index].path, os.O_RDONLY)
            status = os.fstat(self._source)
            if (status.st_dev, status.st_ino) != self._files[index].inode:
                # Another file has taken its name: the one that was compared and hashed is the mapped one.
                os.close(self._source)
                self._source = -1

    def _some(self, offset: int, count: int) -> int:
        if self._source >= 0:
            try:
                if done := os.sendfile(1, self._source, offset, count):
                    return done
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                self._kernel = False
            os.close(self._source)
            self._source = -1
        return os.write(1, self._files[self._index].data[offset : offset + count])


def _head(kind: str, block: Block) -> dict[str, Any]:
    return {kind: block.file, "at": block.offset, "bytes": block.size, "also": block.also}


def _line(record: dict[str, Any]) -> None:
    view = memoryview((json.dumps(record) + "\n").encode())
    while view:
        view = view[os.write(1, view) :]


def send(request: dict[str, Any]) -> None:
    """The stream for ``{"root": folder, "files": [name], "want": [index], "passed": n, "skip": [index, bytes, kind]}``.

    The files not wanted are there already, and serve the others; of the first ``passed`` files what they share has
    been passed on. ``skip`` tells how many of a file's sent bytes are there already: ``raw`` as counted in an earlier
    stream, and passed on; ``plain`` as the beginning of the file, which holds only where all of it is sent.
    """
    Sender(request).run()


if __name__ == "__main__":
    send(json.load(sys.stdin))
