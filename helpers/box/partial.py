"""A file on its way: it grows under a temporary name, can be gone on with, and takes its place only when whole."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from helpers.box.meter import human
from helpers.errors import UsageError
from helpers.screen import as_typed

SCHEMA = "workbook.part/1"
_WORTH_KEEPING = 1 << 20
"""Bytes below which a broken transfer is simply begun anew."""
_PIECES = 64
"""Pieces above which one copy is cheaper than so many pointers (the kernel takes 1024 at a time)."""


class Partial:
    """``.NAME.part`` beside the target, with ``.NAME.part.json`` saying of what it is the beginning. A context manager.

    Leaving without `finish` keeps it when it is worth keeping: the next pull goes on from there.

    Attributes:
        offset: bytes that are there. digest: over these.
    """

    def __init__(self, target: Path, source: str, size: int, mtime: str) -> None:
        self.target = target
        self.part = target.with_name(f".{target.name}.part")
        self.note = target.with_name(f".{target.name}.part.json")
        self.size = size
        self._about = {"schema": SCHEMA, "source": source, "size": size, "mtime": mtime}
        self._finished = False
        self.digest = hashlib.sha256()
        self.offset = 0
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.file = self._open()
        except OSError as error:
            raise local_problem(self.part, error) from error

    def _open(self) -> BinaryIO:
        file = os.fdopen(os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise UsageError(
                "WB-PULL-BUSY",
                f"{self.target} is being pulled by another program right now",
                expected="one pull at a time into one place",
                next="wait for the other to end, or pull to another path",
            ) from error
        if self._known() and (have := os.fstat(file.fileno()).st_size) <= self.size:
            while block := file.read(1 << 22):
                self.digest.update(block)
            self.offset = have
        else:
            file.truncate(0)
            if self.size >= _WORTH_KEEPING:
                self.note.write_text(json.dumps(self._about) + "\n")
        return file

    def _known(self) -> bool:
        try:
            return bool(json.loads(self.note.read_text()) == self._about)
        except (OSError, ValueError):
            return False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append ``pieces``.

        Raises:
            UsageError: WB-DISK-FULL, WB-LOCAL-WRITE.
        """
        for piece in pieces:
            self.digest.update(piece)
        try:
            _all(pieces, lambda left: os.writev(self.file.fileno(), left))
        except OSError as error:
            raise local_problem(self.target, error, kept=self.part) from error
        self.offset += sum(map(len, pieces))

    def scatter(self) -> None:
        """Begin anew, in no order (`write_at`): such a file cannot be gone on with later. Takes the room at once."""
        self.note.unlink(missing_ok=True)
        self.offset = 0
        try:
            self.file.truncate(0)
            if self.size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.file.fileno(), 0, self.size)
        except OSError as error:
            raise local_problem(self.target, error) from error

    def write_at(self, pieces: Sequence[bytes | memoryview], offset: int) -> None:
        """Put ``pieces`` one after the other from ``offset`` on, as one write where that can be. Raises: as `write`."""

        def some(left: Sequence[bytes | memoryview]) -> int:
            nonlocal offset
            count = _pwritev(self.file.fileno(), left, offset)
            offset += count
            return count

        try:
            _all(pieces, some)
        except OSError as error:
            raise local_problem(self.target, error) from error

    def finish(self, mode: int) -> None:
        """Give the whole file its name; a file that was there keeps its mode and is replaced in one step."""
        try:
            old = self.target.stat().st_mode & 0o7777 if self.target.exists() else None
            os.fchmod(self.file.fileno(), old if old is not None else mode & ~_umask())
            self.part.replace(self.target)
        except OSError as error:
            raise local_problem(self.target, error, kept=self.part) from error
        self.note.unlink(missing_ok=True)
        self._finished = True

    def discard(self) -> None:
        """Throw away what is there: it is no beginning of the file any more."""
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        self._finished = True

    def __enter__(self) -> Partial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished and (self.offset < _WORTH_KEEPING or not self.note.exists()):
            self.discard()
        self.file.close()


def _all(pieces: Sequence[bytes | memoryview], write: Callable[[Sequence[bytes | memoryview]], int]) -> None:
    """Have ``write`` take all of ``pieces``, however little it takes at a time."""
    left: list[bytes | memoryview] = list(pieces) if len(pieces) <= _PIECES else [b"".join(pieces)]
    while left:
        count = write(left)
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if count:
            left[0] = memoryview(left[0])[count:]


def _pwritev(file: int, pieces: Sequence[bytes | memoryview], offset: int) -> int:
    return os.pwritev(file, pieces, offset) if hasattr(os, "pwritev") else os.pwrite(file, pieces[0], offset)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def check_space(folder: Path, needed: int) -> None:
    """Refuse before the first byte what cannot fit.

    Raises:
        UsageError: WB-DISK-FULL.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise UsageError(
            "WB-DISK-FULL",
            f"{human(needed)} do not fit on the disk of {existing}, which has {human(free)} left",
            expected=f"{human(needed)} of free space",
            next=f"df -h {as_typed(existing)}",
        )


def local_problem(path: Path, error: OSError, *, kept: Path | None = None) -> UsageError:
    """The error for a file of this machine that cannot be written; what was there before is untouched."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    again = f"; what has come is kept in {kept.name}" if kept is not None else ""
    return UsageError(
        "WB-DISK-FULL" if full else "WB-LOCAL-WRITE",
        f"{path} cannot be written: {error.strerror or error}{again}",
        expected="room for the file" if full else "a folder that may be written to",
        next=f"df -h {as_typed(path.parent)}" if full else f"ls -ld {as_typed(path.parent)}",
    )
