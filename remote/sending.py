"""Sends a folder's files as one stream in which equal bytes travel once.

Eight tensor-parallel ranks write eight files whose tensors are mostly copies of each other. A tensor that an earlier
file holds too, byte for byte, is named instead of sent. The stream is lines of JSON, some with bytes after them:
``{"plan": i, "size": n, "segments": [[offset, length, from_file | -1, from_offset], ...], "skip": k}`` as soon as file
i has been compared, mostly while an earlier file is on its way;
``{"data": i, "bytes": n}`` and n bytes: the next of its segments with -1, in order, but for the first k;
``{"end": i, "sha256": "<of all bytes of its segments with -1>"}``.
Files come in the order asked for, each plan before the file's data. Called as ``python3 -m remote.sending`` with the
request on stdin; standard library only.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import sys
import threading
from pathlib import Path
from typing import Any

from remote.near_data import Refused, read_header

BLOCK = 1 << 20
RECORD = 1 << 22
AHEAD = 64
Segment = tuple[int, int, int, int]
_MEMCMP = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Mapped:
    """A file mapped into memory, with the parts that may be equal to parts of other files.

    Attributes:
        parts: what a part is -> (offset, length). A safetensors file's tensors by name, dtype and shape, and its
            header; any other file is one part.
    """

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self.data = memoryview(b"")
        self.address = 0
        if self.size:
            with path.open("rb") as file:
                # A private writable mapping, since ctypes gives the address of nothing less; nothing is written.
                mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self.data = memoryview(mapping)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self.parts: dict[str, tuple[int, int]] = {f"whole {self.size}": (0, self.size)} if self.size else {}
        if path.suffix == ".safetensors":
            try:
                start, header = read_header(path)
            except Refused:
                return
            self.parts = {f"header {start}": (0, start)}
            for name, entry in header.items():
                first, last = entry["data_offsets"]
                if last > first:
                    self.parts[f"tensor {name} {entry['dtype']} {entry['shape']}"] = (start + first, last - first)

    def same(self, offset: int, other: Mapped, other_offset: int, length: int) -> bool:
        """Whether ``length`` bytes are equal; compared in C, without holding Python's lock."""
        return bool(_MEMCMP(self.address + offset, other.address + other_offset, length) == 0)


def plan(files: list[Mapped], index: int, holders: dict[str, list[int]]) -> list[Segment]:
    """The segments of file ``index``, given which earlier files hold which parts as their own."""
    file = files[index]
    segments: list[Segment] = []
    at = 0
    for part, (offset, length) in sorted(file.parts.items(), key=lambda item: item[1]):
        if offset < at:
            continue  # overlapping tensors: what was covered is covered
        found = next(
            (j for j in holders.get(part, []) if file.same(offset, files[j], files[j].parts[part][0], length)), -1
        )
        if found < 0:
            holders.setdefault(part, []).append(index)
        if offset > at:
            _add(segments, at, offset - at, -1, 0)
        _add(segments, offset, length, found, files[found].parts[part][0] if found >= 0 else 0)
        at = offset + length
    if at < file.size:
        _add(segments, at, file.size - at, -1, 0)
    return segments


def _add(segments: list[Segment], offset: int, length: int, source: int, source_offset: int) -> None:
    """Append a segment, or lengthen the last one where both lie one after the other."""
    if segments:
        o, n, s, so = segments[-1]
        if s == source and o + n == offset and (source < 0 or so + n == source_offset):
            segments[-1] = (o, n + length, s, so)
            return
    segments.append((offset, length, source, source_offset))


class Planner(threading.Thread):
    """Compares the files in order, beside the sending, and at most `AHEAD` files before it."""

    def __init__(self, files: list[Mapped]) -> None:
        super().__init__(daemon=True)
        self._files = files
        self._changed = threading.Condition()
        self._plans: dict[int, list[Segment]] = {}
        self._error: BaseException | None = None
        self._sending = 0

    def run(self) -> None:
        holders: dict[str, list[int]] = {}
        try:
            for index in range(len(self._files)):
                with self._changed:
                    while index > self._sending + AHEAD:
                        self._changed.wait()
                segments = plan(self._files, index, holders)
                with self._changed:
                    self._plans[index] = segments
                    self._changed.notify()
        except BaseException as error:  # noqa: BLE001 - handed to the sender, which raises it
            with self._changed:
                self._error = error
                self._changed.notify()

    def get(self, index: int) -> list[Segment]:
        """The plan of file ``index``, which is the next to be sent; waits for it."""
        with self._changed:
            self._sending = index
            self._changed.notify()
            while index not in self._plans and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            return self._plans[index]

    def ready(self) -> dict[int, list[Segment]]:
        """The plans that are there by now."""
        with self._changed:
            return dict(sorted(self._plans.items()))


class Sender:
    """Writes the stream."""

    def __init__(self, request: dict[str, Any]) -> None:
        root = Path(request["root"])
        self.files = [Mapped(root / name) for name in request["files"]]
        self.want = list(request["want"])
        skip: tuple[int, int, str] = request.get("skip") or (-1, 0, "raw")
        self.skip_at, self.skip_count, self.skip_kind = skip
        self.planner = Planner(self.files)
        self.planned: dict[int, int] = {}

    def run(self) -> None:
        self.planner.start()
        for index in self.want:
            segments = self.planner.get(index)
            self._tell_plans()
            self._send_file(index, segments)

    def _tell_plans(self) -> None:
        wanted = set(self.want)
        for index, segments in self.planner.ready().items():
            if index in self.planned or index not in wanted:
                continue
            size = self.files[index].size
            plain = segments == [(0, size, -1, 0)]
            applies = index == self.skip_at and (self.skip_kind == "raw" or plain)
            self.planned[index] = self.skip_count if applies else 0
            _line({"plan": index, "size": size, "segments": segments, "skip": self.planned[index]})

    def _send_file(self, index: int, segments: list[Segment]) -> None:
        file, skip = self.files[index], self.planned[index]
        own = [file.data[offset : offset + length] for offset, length, source, _ in segments if source < 0]
        digest = hashlib.sha256()
        hasher = threading.Thread(target=_hash, args=(digest, own))
        hasher.start()  # beside the writing: neither holds Python's lock
        for part in own:
            for at in range(min(skip, len(part)), len(part), RECORD):
                self._tell_plans()
                block = part[at : at + RECORD]
                _line({"data": index, "bytes": len(block)})
                _write(block)
            skip = max(0, skip - len(part))
        hasher.join()
        _line({"end": index, "sha256": digest.hexdigest()})


def _hash(digest: Any, parts: list[memoryview]) -> None:
    for part in parts:
        for at in range(0, len(part), BLOCK):
            digest.update(part[at : at + BLOCK])


def _line(record: dict[str, Any]) -> None:
    _write((json.dumps(record) + "\n").encode())


def _write(data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view[:BLOCK]) :]


def send(request: dict[str, Any]) -> None:
    """``{"root": folder, "files": [name], "want": [index], "skip": [index, bytes, "raw" | "plain"]}`` -> the stream.

    ``skip`` tells how many of a file's sent bytes are there already: ``raw`` as counted in an earlier stream of the
    same plan, ``plain`` as the beginning of the file, which holds only where all of it is sent.
    """
    Sender(request).run()


if __name__ == "__main__":
    send(json.load(sys.stdin))
