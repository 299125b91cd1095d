"""Sends a folder's files as one stream in which equal bytes travel once.

Eight tensor-parallel ranks write eight files whose tensors are mostly copies of each other. A tensor that an earlier
file holds too, byte for byte, is named instead of sent. The stream, per file and in the order asked for:
``{"file": i, "size": n, "segments": [[offset, length, from_file | -1, from_offset], ...], "skip": k}`` and a newline,
then the bytes of the segments with -1 but for the first k, then ``{"file": i, "sha256": "<of all those bytes>"}`` and a newline. Called as
``python3 -m remote.sending`` with the request on stdin; standard library only.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

from remote.near_data import Refused, read_header

BLOCK = 1 << 20
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


def send(request: dict[str, Any]) -> None:
    """``{"root": folder, "files": [name], "want": [index], "skip": [index, bytes, "raw" | "plain"]}`` -> the stream.

    ``skip`` tells how many of a file's sent bytes are there already: ``raw`` as counted in an earlier stream of the
    same plan, ``plain`` as the beginning of the file, which holds only where all of it is sent.
    """
    root = Path(request["root"])
    files = [Mapped(root / name) for name in request["files"]]
    want = set(request["want"])
    there, count, kind = request.get("skip") or (-1, 0, "raw")
    plans: queue.Queue[list[Segment] | BaseException] = queue.Queue()
    threading.Thread(target=_plan_all, args=(files, plans), daemon=True).start()
    for index, file in enumerate(files):
        segments = plans.get()
        if isinstance(segments, BaseException):
            raise segments
        if index not in want:
            continue
        skip = count if index == there and (kind == "raw" or segments == [(0, file.size, -1, 0)]) else 0
        frame = {"file": index, "size": file.size, "segments": segments, "skip": skip}
        _write((json.dumps(frame) + "\n").encode())
        digest = _send_own(file, segments, skip)
        _write((json.dumps({"file": index, "sha256": digest}) + "\n").encode())


def _send_own(file: Mapped, segments: list[Segment], skip: int) -> str:
    """The bytes of the file's own segments, but for the first ``skip``; the sha256 is over all of them."""
    digest = hashlib.sha256()
    for offset, length, source, _ in segments:
        if source >= 0:
            continue
        for at in range(offset, offset + length, BLOCK):
            block = file.data[at : min(at + BLOCK, offset + length)]
            if skip < len(block):
                _write(block[skip:])
            skip = max(0, skip - len(block))
            digest.update(block)
    return digest.hexdigest()


def _plan_all(files: list[Mapped], plans: queue.Queue[list[Segment] | BaseException]) -> None:
    """Compares while the first file is already on its way."""
    holders: dict[str, list[int]] = {}
    try:
        for index in range(len(files)):
            plans.put(plan(files, index, holders))
    except BaseException as error:  # noqa: BLE001 - handed to the sender, which raises it
        plans.put(error)


def _write(data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    send(json.load(sys.stdin))
