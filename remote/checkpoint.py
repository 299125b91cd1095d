"""A model's folder read without loading a tensor: ``python3 -m remote.checkpoint read`` with ``{"folder"}`` on stdin.

config.json, the headers of its safetensors files, and what the two small tables between a draft's and a target's
vocabulary (d2t, t2d) say. Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import array
import json
import os
import sys
from typing import Any

# The format's own limit: a larger number is no header's length but some other file's first bytes.
_MAX_HEADER = 100 << 20
# d2t and t2d are one number a token; what is longer is no such table.
_MAX_TABLE = 64 << 20
_INTEGERS = {"I64": "q", "I32": "i"}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """``{"folder", "config", "tensors": {name: {dtype, shape, file}}, "tables": {...}, "weights", "problems"}``.

    ``weights`` is ``safetensors``, ``other`` (files that only a pickle could open) or ``none``. ``config`` is None
    where there is none that can be read. A problem names the file.
    """
    folder = os.path.expanduser(request["folder"])
    problems: list[str] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return {"folder": folder, "missing": error.strerror}
    tensors: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    files = [name for name in names if name.endswith(".safetensors")]
    for name in files:
        try:
            found, start = _header(os.path.join(folder, name))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{name}: {getattr(error, 'strerror', None) or error}")
            continue
        for tensor, entry in found.items():
            tensors[tensor] = {"dtype": entry["dtype"], "shape": entry["shape"], "file": name}
            if tensor.split(".")[-1] in ("d2t", "t2d"):
                data = _bytes(os.path.join(folder, name), start, entry)
                tables[tensor.split(".")[-1]] = (entry["dtype"], data)
    others = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    return {
        "folder": folder,
        "config": _config(folder, problems),
        "tensors": tensors,
        "tables": _tables(tables),
        "weights": "safetensors" if files else "other" if others else "none",
        "problems": problems,
    }


def _config(folder: str, problems: list[str]) -> Any:
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        problems.append(f"config.json: {getattr(error, 'strerror', None) or error}")
        return None
    if isinstance(config, dict):
        return config
    problems.append("config.json: it holds no object")
    return None


def _header(path: str) -> tuple[dict[str, Any], int]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_MAX_HEADER, size - 8):
            raise ValueError(f"no safetensors file, or cut off: {size} bytes, a header of {length}")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if 8 + length + end != size:
        raise ValueError(f"{size} bytes, and its header asks for {8 + length + end}")
    return header, 8 + length


def _bytes(path: str, start: int, entry: dict[str, Any]) -> bytes:
    first, last = entry["data_offsets"]
    if last - first > _MAX_TABLE:
        return b""
    with open(path, "rb") as file:
        file.seek(start + first)
        return file.read(last - first)


def _tables(tables: dict[str, tuple[str, bytes]]) -> dict[str, Any]:
    """What d2t and t2d say: the draft's tokens as target tokens, and whether the two tables agree."""
    found: dict[str, Any] = {}
    targets: list[int] = []
    if "d2t" in tables:
        dtype, data = tables["d2t"]
        if dtype not in _INTEGERS:
            return {"d2t": {"dtype": dtype, "readable": False}}
        numbers = array.array(_INTEGERS[dtype])
        numbers.frombytes(data)
        targets = [index + offset for index, offset in enumerate(numbers)]
        found["d2t"] = {
            "dtype": dtype,
            "readable": True,
            "length": len(targets),
            "lowest": min(targets, default=0),
            "highest": max(targets, default=0),
            "doubled": len(targets) - len(set(targets)),
            # A table that holds the target's ids themselves, instead of differences, runs up strictly.
            "absolute": len(numbers) > 1 and numbers[0] >= 0 and _rises(numbers),
        }
    if "t2d" in tables:
        dtype, data = tables["t2d"]
        wanted = {index for index, byte in enumerate(data) if byte} if dtype in ("BOOL", "U8") else set()
        readable = dtype in ("BOOL", "U8")
        found["t2d"] = {"dtype": dtype, "readable": readable, "length": len(data), "marked": len(wanted)}
        if targets and readable:
            found["t2d"]["disagree"] = len(wanted.symmetric_difference(targets))
    return found


def _rises(numbers: array.array[int]) -> bool:
    """Whether the numbers rise by at least one at each step, as ids do and differences hardly."""
    return all(after > before for before, after in zip(numbers, numbers[1:]))  # noqa: B905, RUF007 - Python 3.9


if __name__ == "__main__":
    print(json.dumps(read(json.load(sys.stdin))))
