"""The header of a safetensors file, read and held against the file's size before any tensor is touched."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from helpers.errors import UsageError

TORCH_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
# The format's own limit; a larger number is no header length but some other file's first bytes.
MAX_HEADER = 100 << 20


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: its type, its shape, and where its bytes lie (offsets from the start of the file)."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a safetensors file.

    Raises:
        UsageError: ``WB-TENSORS-FOREIGN`` (not such a file) or ``WB-TENSORS-TRUNCATED`` (shorter or longer than its
            header says), naming the file and the offset.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > MAX_HEADER:
            raise foreign(path, f"its first 8 bytes give a header of {length} bytes")
        if 8 + length > size:
            raise truncated(path, size, 8 + length, "the header alone")
        text = file.read(length)
    try:
        raw = json.loads(text)
        entries = {name: entry_of(item, 8 + length) for name, item in raw.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise foreign(path, f"its header at offset 8 is not one of safetensors: {error}") from error
    end = max((entry.stop for entry in entries.values()), default=8 + length)
    if end != size:
        raise truncated(path, size, end, "its tensors")
    return entries


def entry_of(item: dict[str, object], data_start: int) -> Entry:
    dtype = TORCH_DTYPES[str(item["dtype"])]
    shape, offsets = item["shape"], item["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise ValueError(f"shape {shape!r}, data_offsets {offsets!r}")
    start, stop = offsets
    if stop - start != math.prod(shape) * dtype.itemsize or start < 0:
        raise ValueError(f"{stop - start} bytes for shape {shape} of {item['dtype']}")
    return Entry(dtype, tuple(shape), data_start + start, data_start + stop)


def foreign(path: Path, why: str) -> UsageError:
    return UsageError(
        "WB-TENSORS-FOREIGN",
        f"{path} is not a safetensors file: {why}",
        expected="8 bytes of header length, a JSON header, the tensors' bytes",
        next=f"workbook inspect {path.parent}",
    )


def truncated(path: Path, size: int, needed: int, what: str) -> UsageError:
    return UsageError(
        "WB-TENSORS-TRUNCATED",
        f"{path} has {size} bytes, and its header asks for {needed} ({what})",
        expected=f"exactly {needed} bytes",
        next="pull the file again: workbook pull BOX PATH LOCAL",
    )
