"""Lines that are only ever added, each bound to the one before it by its hash; several processes may write at once.

A line is a JSON object in UTF-8. Its last two keys are ``previous`` (the sha256 of the line before) and ``sha256`` (of
this line's own bytes up to there), so any changed byte shows. An append returns when the line is on the disk: what was
acknowledged survives a crash, and what a crash left half-written is put aside by the next append.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from helpers.errors import WrongResult
from helpers.ledger.files import sync_folder, write_whole
from helpers.ledger.refusals import unwritten

FIRST = "0" * 64
_LINE = re.compile(rb'(?P<body>\{.*),"sha256":"(?P<sha256>[0-9a-f]{64})"\}', re.S)

Data = dict[str, Any]


class Damage(Exception):
    """A line that is not what was written. ``line``: its number, from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line = line
        self.why = why


def encode(data: Data, previous: str) -> tuple[bytes, str]:
    """A line without its newline, and its hash."""
    whole = json.dumps({**data, "previous": previous}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    body = whole.encode()[:-1]
    sha256 = hashlib.sha256(body).hexdigest()
    return body + f',"sha256":"{sha256}"}}'.encode(), sha256


def decode(line: bytes, previous: str, number: int) -> tuple[Data, str]:
    """What a line holds, and its hash.

    Raises:
        Damage: its bytes are not those that were written, or it does not follow on the one before.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        raise Damage(number, "is no line of a ledger")
    sha256 = found["sha256"].decode()
    if hashlib.sha256(found["body"]).hexdigest() != sha256:
        raise Damage(number, "is not what its own sha256 says: its bytes were changed")
    data: Data = json.loads(found["body"] + b"}")
    if data.pop("previous") != previous:
        raise Damage(number, "does not follow on the line before: one was changed, removed or put in between")
    return data, sha256


class Chain:
    """One file of such lines. Safe with threads and processes.

    Attributes:
        entries: what the lines hold, as read last. torn: bytes of a line that a crash left unfinished, as read last.
        head: the hash of the last line, which stands for the whole file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mutex = threading.RLock()
        self._batches = 0
        self._reset()

    def _reset(self) -> None:
        self.entries: list[Data] = []
        self.head = FIRST
        self.torn = b""
        self._offset = 0

    def read(self) -> list[Data]:
        """Everything that is there now.

        Raises:
            WrongResult: ``WB-LEDGER-BROKEN`` with the line that is not what was written.
        """
        with self.mutex:
            if self.path.exists():
                with self.path.open("rb", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_SH)  # else another's half-written line would look torn
                    self._catch_up(file.fileno())
            return self.entries

    def append(self, make: Callable[[list[Data]], Sequence[Data]]) -> list[Data]:
        """Add the lines that `make` gives for what is there; returns them when they are on the disk.

        Args:
            make: called with all entries, under the lock, so that what it decides still holds when it is written.

        Raises:
            WrongResult: ``WB-LEDGER-BROKEN``: nothing is added to a chain that is broken.
            UsageError: ``WB-LEDGER-WRITE``, and nothing of it was written.
        """
        with self.mutex:
            if not self.path.exists() and not make([]):
                return []  # asked before there is a file: what is refused, or says nothing, leaves none behind
            try:
                self._create()
                with self.path.open("r+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    self._catch_up(file.fileno())
                    if self.torn:
                        self._recover(file.fileno())
                    added = list(make(self.entries))
                    if added:
                        self._write(file.fileno(), added)
                    return added
            except OSError as error:
                raise unwritten(self.path.parent, error) from error

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Inside the block lines are written at once and brought to the disk at its end, together.

        What is added inside is acknowledged by the end of the block, not before.
        """
        with self.mutex:
            self._batches += 1
        try:
            yield
        finally:
            with self.mutex:
                self._batches -= 1
                if self._batches == 0 and self.path.exists():
                    with self.path.open("rb", buffering=0) as file:
                        os.fsync(file.fileno())

    def _create(self) -> None:
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.open("ab").close()
        sync_folder(self.path.parent)
        sync_folder(self.path.parent.parent)

    def _catch_up(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            self._reset()  # it was put back to an older state from outside
        os.lseek(descriptor, self._offset, os.SEEK_SET)
        *lines, self.torn = _read(descriptor, size - self._offset).split(b"\n")
        for line in lines:
            try:
                data, self.head = decode(line, self.head, len(self.entries) + 1)
            except Damage as damage:
                broken = self._broken(damage)
                self._reset()
                raise broken from None
            self.entries.append(data)
            self._offset += len(line) + 1

    def _recover(self, descriptor: int) -> None:
        """Make the file end with a whole line again; what is no line is put aside, not thrown away."""
        # All but the newline may have been written, or only the newline been damaged since: such a line stays.
        for candidate in (self.torn, self.torn[:-1]):
            try:
                data, head = decode(candidate, self.head, len(self.entries) + 1)
            except Damage:
                continue
            os.ftruncate(descriptor, self._offset + len(candidate))
            _write_all(descriptor, self._offset + len(candidate), b"\n")
            self.entries.append(data)
            self.head, self._offset = head, self._offset + len(candidate) + 1
            break
        else:
            write_whole(self.path.with_name(f"torn-{hashlib.sha256(self.torn).hexdigest()[:12]}.part"), self.torn)
            os.ftruncate(descriptor, self._offset)
        os.fsync(descriptor)
        self.torn = b""

    def _write(self, descriptor: int, added: Sequence[Data]) -> None:
        head, text = self.head, b""
        for data in added:
            line, head = encode(data, head)
            text += line + b"\n"
        try:
            _write_all(descriptor, self._offset, text)
            if self._batches == 0:
                os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk lets go of bytes
                os.ftruncate(descriptor, self._offset)
            raise
        self.head, self._offset = head, self._offset + len(text)
        self.entries.extend(added)

    def _broken(self, damage: Damage) -> WrongResult:
        return WrongResult(
            "WB-LEDGER-BROKEN",
            f"{self.path} line {damage.line} {damage.why}",
            expected="lines that were only ever added",
            next=f"put back the line from a copy; to see all: workbook ledger verify {self.path.parent.name}",
        )


def _read(descriptor: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write_all(descriptor: int, offset: int, data: bytes) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
