"""safetensors files read and written without holding them in memory.

The format: eight bytes with the header's length, a JSON header ``{name: {dtype, shape, data_offsets}}``, then the
tensors' bytes. A file is written here through a mapping of it, tensor rows landing where they belong in any order.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from pathlib import Path

import torch

DTYPES = {
    torch.int64: "I64",
    torch.int32: "I32",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint8: "U8",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
Spec = dict[str, tuple[torch.dtype, tuple[int, ...]]]


def create(path: Path, tensors: Spec) -> dict[str, torch.Tensor]:
    """Make a file of zeros with these tensors, and give them back as views of it: to write to one writes the file.

    Wider types come first, so that each view is aligned in the file. Its room is taken at once.

    Raises:
        OSError: where there is none.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name][0].itemsize, name))
    header: dict[str, object] = {}
    offset = 0
    for name in order:
        dtype, shape = tensors[name]
        size = dtype.itemsize * math.prod(shape)
        header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(start + offset)
        reserve(file.fileno(), start + offset)
    if offset == 0:
        return {name: torch.empty(tensors[name][1], dtype=tensors[name][0]) for name in order}
    mapped = torch.from_file(str(path), shared=True, size=start + offset, dtype=torch.uint8)
    views: dict[str, torch.Tensor] = {}
    at = start
    for name in order:
        dtype, shape = tensors[name]
        size = dtype.itemsize * math.prod(shape)
        views[name] = mapped[at : at + size].view(dtype).view(shape)
        at += size
    return views


def reserve(file: int, size: int) -> None:
    """Have the disk give the room now: who writes through a mapping into holes dies of a signal when it is full."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise


def sync(path: Path) -> None:
    """Have what was written to the file on disk before it gets its real name."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sha256(path: Path) -> str:
    """The hash of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()
