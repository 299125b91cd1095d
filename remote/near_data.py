"""Answers beside the tensors, so that a look at a capture does not need its bytes, and equal bytes travel once.

Called as ``python3 -m remote.near_data OPERATION`` with a JSON request on stdin; it prints one JSON object, an error
as ``{"error": {"code", "message"}}`` with exit status 1; `scan` and `take` answer in tensors (remote/sketches.py).
`hashes` and `open` need the standard library only, the others torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remote import sketches

MAX_HEADER = 100_000_000  # the format's own bound
BLOCK = 1 << 22
BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}
BYTES.update({"I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8})


class Refused(Exception):
    """The request cannot be answered; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_header(path: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Where the tensors' bytes start, and ``{name: {dtype, shape, data_offsets}}`` of a safetensors file."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(MAX_HEADER, size - 8):
            raise Refused("not-safetensors", f"{path} is no safetensors file")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                start, end = entry["data_offsets"]
                if not 0 <= start <= end <= size - 8 - length:
                    raise Refused("truncated", f"{path}: tensor {name} ends at {end}, the data at {size - 8 - length}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused("not-safetensors", f"{path} has a broken header: {error!r}") from error
    return 8 + length, header


def hash_range(path: Path, start: int = 0, length: int | None = None) -> str:
    """The sha256 of a file, or of ``length`` bytes of it."""
    digest = hashlib.sha256()
    left = math.inf if length is None else length
    with path.open("rb") as file:
        file.seek(start)
        while left > 0 and (block := file.read(int(min(BLOCK, left)))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def hashes(request: dict[str, Any]) -> dict[str, Any]:
    """``{"files": [path]}`` -> per file its size and sha256, and per tensor dtype, shape and sha256."""
    from concurrent.futures import ThreadPoolExecutor

    def one(path: Path) -> dict[str, Any]:
        start, header = read_header(path)
        tensors = {}
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            digest = hash_range(path, start + first, last - first)
            tensors[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "sha256": digest}
        return {"path": str(path), "bytes": path.stat().st_size, "sha256": hash_range(path), "tensors": tensors}

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return {"files": list(pool.map(one, map(Path, request["files"])))}


def _load(path: Path, name: str) -> Any:
    """One tensor, mapped from the file: only what is used is read."""
    start, header = read_header(path)
    if name not in header:
        raise Refused("no-tensor", f"{path} has no tensor {name}; it has {', '.join(sorted(header)[:20])}")
    import torch

    entry = header[name]
    dtypes = {
        "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
        "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    }  # fmt: skip
    dtypes |= {
        key: getattr(torch, key.lower().replace("f8", "float8") + suffix)
        for key, suffix in (("F8_E4M3", "fn"), ("F8_E5M2", ""))
        if hasattr(torch, key.lower().replace("f8", "float8") + suffix)
    }
    if entry["dtype"] not in dtypes:
        raise Refused("dtype", f"{path}: {name} is {entry['dtype']}, which torch {torch.__version__} does not know")
    first, last = entry["data_offsets"]
    if first == last:
        return torch.empty(entry["shape"], dtype=dtypes[entry["dtype"]])
    whole = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    data = whole[start + first : start + last]
    if (start + first) % BYTES.get(entry["dtype"], 8):
        data = data.clone()  # a view of a wider type has to start at a multiple of its size
    return data.view(dtypes[entry["dtype"]]).view(entry["shape"])


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """``{"files": [path], "names": [tensor] | null}`` -> per tensor: equal in all files, or how far from the first.

    ``max_abs`` is the largest difference, ``relative`` the norm of the difference over the norm of the first.
    """
    files = [Path(item) for item in request["files"]]
    headers = [read_header(path)[1] for path in files]
    names = request.get("names") or sorted(set().union(*headers))
    result = {}
    for name in names:
        have = [index for index, header in enumerate(headers) if name in header]
        kinds = {json.dumps([headers[index][name]["dtype"], headers[index][name]["shape"]]) for index in have}
        entry: dict[str, Any] = {
            "missing_in": [i for i in range(len(files)) if i not in have],
            "alike": len(kinds) == 1,
        }
        if entry["alike"] and len(have) > 1:
            entry["differences"] = [_difference(files[have[0]], files[i], name) for i in have[1:]]
            entry["equal"] = all(item["max_abs"] == 0 and item["same_bits"] for item in entry["differences"])
        result[name] = entry
    return {"files": [str(path) for path in files], "tensors": result}


def _difference(first: Path, other: Path, name: str) -> dict[str, Any]:
    import torch

    one, two = _load(first, name).flatten(), _load(other, name).flatten()
    largest = squared = norm = 0.0
    same = True
    for at in range(0, one.numel(), BLOCK):
        left, right = one[at : at + BLOCK], two[at : at + BLOCK]
        if torch.equal(left.view(torch.uint8), right.view(torch.uint8)):
            norm += float(left.double().square().sum())
            continue
        same = False
        delta = (left.double() - right.double()).abs()
        largest = max(largest, float(delta.max()))
        squared += float(delta.square().sum())
        norm += float(left.double().square().sum())
    relative = math.sqrt(squared / norm) if norm > 0 else (0.0 if squared == 0 else None)
    return {"file": str(other), "same_bits": same, "max_abs": largest, "relative": relative}


def norms(request: dict[str, Any]) -> dict[str, Any]:
    """``{"file": path, "names": [tensor] | null}`` -> per floating tensor: rms, row norms, non-finite count."""
    path = Path(request["file"])
    header = read_header(path)[1]
    result = {}
    for name in request.get("names") or sorted(header):
        tensor = _load(path, name)
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        rows = tensor.reshape(tensor.shape[0], -1) if tensor.dim() > 1 else tensor.reshape(1, -1)
        step = max(1, BLOCK // max(1, rows.shape[1]))
        per_row, bad = [], 0
        for at in range(0, rows.shape[0], step):
            block = rows[at : at + step].double()
            bad += int((~block.isfinite()).sum())
            per_row += block.nan_to_num(0.0, 0.0, 0.0).norm(dim=1).tolist()
        total = math.sqrt(sum(value * value for value in per_row))
        result[name] = {
            "shape": list(tensor.shape),
            "rms": total / math.sqrt(tensor.numel()),
            "mean_row_norm": sum(per_row) / len(per_row),
            "max_row_norm": max(per_row),
            "non_finite": bad,
        }
    return {"file": str(path), "tensors": result}


def slice_(request: dict[str, Any]) -> dict[str, Any]:
    """``{"file", "name", "rows": [a, b], "columns": [a, b] | null}`` -> the values, as exact as JSON numbers are."""
    tensor = _load(Path(request["file"]), request["name"])
    part = tensor[slice(*request["rows"])] if tensor.dim() else tensor
    if request.get("columns") is not None and part.dim() > 1:
        part = part[:, slice(*request["columns"])]
    if part.numel() > 1_000_000:
        raise Refused("too-large", f"{part.numel()} values; at most 1000000 at a time")
    values = part.double() if part.is_floating_point() else part
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": list(tensor.shape), "values": values.tolist()}


def stream(operation: str, request: dict[str, Any]) -> None:
    """An operation whose answer is tensors, onto stdout: see `remote.sketches.packed`."""
    near = sys.modules[__name__]
    for block in sketches.packed({"scan": sketches.scan, "take": sketches.take}[operation](request, near)):
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def with_self(call: Callable[[dict[str, Any], Any], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: call(request, sys.modules[__name__])


STREAMS = ("scan", "take")
OPERATIONS = {
    "open": with_self(sketches.open_capture),
    "differences": with_self(sketches.differences),
    "hashes": hashes,
    "compare": compare,
    "norms": norms,
    "slice": slice_,
}


def main(arguments: list[str]) -> int:
    operation = arguments[0] if arguments else ""
    try:
        request = json.load(sys.stdin)
        if operation in STREAMS:
            stream(operation, request)
            return 0
        if operation not in OPERATIONS:
            raise Refused("usage", f"{operation!r} is none of {', '.join((*OPERATIONS, *STREAMS))}")
        print(json.dumps(OPERATIONS[operation](request)))
        return 0
    except Refused as error:
        print(json.dumps({"error": {"code": error.code, "message": str(error)}}))
    except (OSError, ValueError, KeyError) as error:
        print(json.dumps({"error": {"code": "failed", "message": repr(error)}}))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
