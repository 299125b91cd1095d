"""What a diagnosis needs of a capture that is too large to travel: seeded random projections, norms, faults, some rows.

Operations of ``remote.near_data``. A *feature* of a request says how a tensor of the whole comes out of the rank files:
``{"key", "files": [path], "names": [tensor], "how": "plain" | "stack" | "concat" | "sum", "slots": K}``. ``stack`` puts
the files' rows one after the other, ``concat`` slices of the width side by side, ``sum`` adds the terms. Everything is
read in blocks of rows, so memory stays bounded.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

BLOCK = 1 << 24  # bytes of float32 that are looked at in one piece
KEYS = ("token_ids", "positions", "request", "feed_rows")
PARTIAL = 0.01  # a row that is further apart on two ranks was not reduced
NAMES = {"torch.int32": "I32", "torch.int64": "I64", "torch.float16": "F16", "torch.float32": "F32"}
NAMES.update({"torch.bfloat16": "BF16", "torch.float64": "F64", "torch.float8_e4m3fn": "F8_E4M3"})
NAMES.update({"torch.float8_e5m2": "F8_E5M2", "torch.uint8": "U8", "torch.int8": "I8", "torch.int16": "I16"})


def open_capture(request: dict[str, Any], near: Any) -> dict[str, Any]:
    """``{"path": folder}`` -> capture.json as it stands; each file's size, sha256, header, hashes of its keys."""
    folder = Path(request["path"])
    files: dict[str, Any] = {}
    whole: list[str] = []
    if not (folder / "capture.json").is_file():
        return {"path": str(folder), "info": None, "files": files}
    text = (folder / "capture.json").read_text(errors="replace")
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None  # said by whoever asked
    files_listed = listed.get("files") if isinstance(listed, dict) else None
    for item in files_listed if isinstance(files_listed, list) else []:
        name = str(item.get("name")) if isinstance(item, dict) else ""
        path = folder / name
        if not name or path.name != name or not path.is_file():
            continue
        size = path.stat().st_size
        if size != item.get("bytes"):
            files[name] = {"bytes": size}
            continue
        whole.append(name)
        try:
            start, header = near.read_header(path)
        except near.Refused as error:
            files[name] = {"bytes": size, "broken": str(error)}
            continue
        keys = {}
        for key in KEYS:
            if key in header:
                first, last = header[key]["data_offsets"]
                keys[key] = near.hash_range(path, start + first, last - first)
        files[name] = {"bytes": size, "start": start, "header": header, "keys": keys}
    if request.get("verify", True):
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            digests = list(pool.map(near.hash_range, [folder / name for name in whole]))
        for number, name in enumerate(whole):
            files[name]["sha256"] = digests[number]
    return {"path": str(folder), "info": text, "files": files}


def differences(request: dict[str, Any], near: Any) -> dict[str, Any]:
    """``{"first": path, "other": path, "names": [tensor], "hidden": H}`` -> how far the other's rows are from its own.

    A row's difference is in lengths of the longer of the two; of taps side by side the one that differs most counts;
    the first row of each text is left out. ``largest`` and ``median`` of them, how many ``rows`` are more than
    `PARTIAL` apart, ``of`` how many; None where the shapes differ. As helpers/tensors/apart.py has it.
    """
    import torch

    result: dict[str, dict[str, float | int] | None] = {}
    header = near.read_header(Path(request["first"]))[1]
    small = {key: near._load(Path(request["first"]), key).long() for key in KEYS if key in header}
    for name in request["names"]:
        one, two = (near._load(Path(request[side]), name) for side in ("first", "other"))
        if one.shape != two.shape:
            result[name] = None
            continue
        one, two = (x.reshape(len(x), -1) if len(x) else x.reshape(0, 1) for x in (one, two))
        step = max(1, BLOCK // (8 * one.shape[1]))
        parts = [torch.zeros(0, dtype=torch.float64)]
        for at in range(0, len(one), step):
            parts.append(by_row(one[at : at + step], two[at : at + step], request["hidden"]))
        apart = torch.cat(parts)
        positions = small["positions"]
        if name == "feed" and "feed_rows" in small:
            positions = positions[small["feed_rows"]]
        seen = apart[positions > 0] if len(positions) == len(apart) else apart
        largest, median = (float(seen.max()), float(seen.median())) if len(seen) else (0.0, 0.0)
        rows = int((seen > PARTIAL).sum())
        found: dict[str, float | int] = {
            "largest": max(largest, 1e-12),
            "median": median,
            "rows": rows,
            "of": len(seen),
        }
        result[name] = found if bool(apart.any()) else {"largest": 0.0, "median": 0.0, "rows": 0, "of": 0}
    return {"differences": result}


def by_row(a: Any, b: Any, hidden: int) -> Any:
    """The relative difference of each row [N, W]; of several taps side by side that of the tap that differs most."""
    import torch

    width = hidden if a.shape[1] % hidden == 0 else a.shape[1]
    x, y = (one.double().nan_to_num(0, 0, 0).view(len(one), -1, width) for one in (a, b))
    long_x, long_y, apart = (torch.linalg.vector_norm(one, dim=2) for one in (x, y, x - y))
    return (apart / torch.maximum(long_x, long_y).clamp(min=1e-300)).amax(dim=1)


def scan(request: dict[str, Any], near: Any) -> Iterator[tuple[str, Any]]:
    """``{"features": [...]}`` -> which rows are broken, by feature.

    ``key/bad``: rows that are not finite. With ``"rows": true`` in a feature also, for each slot, ``key/zero.<i>``:
    rows that are all zero, and ``key/same.<i>`` with ``key/group.<i>``: finite rows that are there more than once, and
    which of them are alike.
    """
    import torch

    for feature in request["features"]:
        source = Source(feature, near)
        bad: list[Any] = []
        places: list[Any] = []
        zero: list[list[Any]] = [[] for _ in range(source.slots)]
        hashes: list[list[Any]] = [[] for _ in range(source.slots)]
        for start, stop in source.blocks():
            x = source.rows(slice(start, stop))
            sound = torch.isfinite(x.float() if x.dtype.itemsize == 1 else x).flatten(1).all(dim=1)
            rows = torch.arange(start, stop)
            bad.append(rows[~sound])
            if feature.get("rows"):
                x = x.view(stop - start, source.slots, -1)[sound]
                places.append(rows[sound])
                for slot in range(source.slots):
                    part = x[:, slot]
                    zero[slot].append(places[-1][(part.float() == 0).all(dim=1)])
                    hashes[slot].append(row_hash(part))
        yield f"{source.key}/bad", torch.cat(bad).int()
        for slot in range(source.slots if feature.get("rows") else 0):
            empty = torch.cat(zero[slot])
            where, value = torch.cat(places), torch.cat(hashes[slot])
            keep = ~torch.isin(where, empty)
            _, group, count = torch.unique(value[keep], return_inverse=True, return_counts=True)
            again = count[group] > 1
            yield f"{source.key}/zero.{slot}", empty.int()
            yield f"{source.key}/same.{slot}", where[keep][again].int()
            yield f"{source.key}/group.{slot}", group[again].int()


def take(request: dict[str, Any], near: Any) -> Iterator[tuple[str, Any]]:
    """``{"features": [...], "rows": {name: [row]}, "seed", "dims"}`` -> rows of features, whole or as sketches.

    A feature's ``rows`` names one of the lists (None: all). ``"as": "sketch"`` gives ``key`` [n, K, dims] in half
    precision, projections of rows of length one, and ``key/norm`` [n, K]; ``"ids"`` whole numbers in 32 bits.
    """
    import torch

    signs: dict[int, Any] = {}
    for feature in request["features"]:
        source = Source(feature, near)
        wanted = feature.get("rows")
        rows = (
            torch.arange(source.length) if wanted is None else torch.tensor(request["rows"][wanted], dtype=torch.long)
        )
        how = feature.get("as", "rows")
        parts, lengths = [], []
        for start in range(0, len(rows), source.step):
            x = source.rows(rows[start : start + source.step])
            if how == "sketch":
                x = x.view(len(x), source.slots, -1).float()
                matrix = signs.setdefault(x.shape[2], projection(request["seed"], x.shape[2], request["dims"]))
                x, length = sketch(x, matrix)
                lengths.append(length)
            parts.append(x.int() if how == "ids" else x.clone())
        yield source.key, torch.cat(parts) if parts else source.rows(slice(0, 0))
        if how == "sketch":
            yield f"{source.key}/norm", torch.cat(lengths) if lengths else torch.empty(0, source.slots)


class Source:
    """A feature's rows, out of one or more rank files."""

    def __init__(self, feature: dict[str, Any], near: Any) -> None:
        self.key, self.how, self.slots = feature["key"], feature.get("how", "plain"), feature.get("slots", 1)
        self.parts = [near._load(Path(f), n) for f, n in zip(feature["files"], feature["names"], strict=True)]
        self.length = sum(map(len, self.parts)) if self.how == "stack" else len(self.parts[0])
        width = sum(part[0].numel() for part in self.parts) if self.length else 1
        self.step = max(1, BLOCK // (4 * max(1, width)))

    def blocks(self) -> Iterator[tuple[int, int]]:
        for start in range(0, max(1, self.length), self.step):
            yield start, min(start + self.step, self.length)

    def rows(self, index: Any) -> Any:
        import torch

        if self.how == "stack":
            return self.stacked(torch.arange(index.start, index.stop) if isinstance(index, slice) else index)
        parts = [part[index] for part in self.parts]
        if self.how == "concat":
            return torch.cat([part.reshape(len(part), self.slots, -1) for part in parts], dim=2).flatten(1)
        if self.how == "sum":
            total = parts[0].float()
            for part in parts[1:]:
                total = total + part.float()
            return total
        return parts[0]

    def stacked(self, index: Any) -> Any:
        out = self.parts[0].new_empty((len(index), *self.parts[0].shape[1:]))
        at = 0
        for part in self.parts:
            mine = (index >= at) & (index < at + len(part))
            out[mine] = part[index[mine] - at]
            at += len(part)
        return out


def projection(seed: str, hidden: int, dims: int) -> Any:
    """Random signs [hidden, dims] over the root of dims: the same wherever they are made, whatever the torch."""
    import torch

    drawn = hashlib.shake_256(f"{seed}/{hidden}/{dims}".encode()).digest(hidden * dims)
    bits = torch.frombuffer(bytearray(drawn), dtype=torch.uint8)
    return ((bits & 1).float() * 2 - 1).view(hidden, dims) / dims**0.5


def sketch(x: Any, matrix: Any) -> tuple[Any, Any]:
    """Projections of rows [n, K, H] that are made length one, in half precision, and their lengths [n, K]."""
    import torch

    length = torch.linalg.vector_norm(x, dim=-1)
    return ((x / length.clamp(min=1e-30).unsqueeze(-1)) @ matrix).half(), length


def row_hash(x: Any) -> Any:
    """A number for each row, equal for equal bits."""
    import torch

    x = x.contiguous()
    words = x.view(torch.uint8 if x.shape[1] * x.dtype.itemsize % 8 else torch.int64)
    mixed = words.long() if words.dtype == torch.uint8 else words ^ (words >> 31)
    weights = torch.arange(1, words.shape[1] + 1) * 0x9E3779B97F4A7C1 % 0x7FFFFFFFFFFFFFE7 | 1
    return (mixed * weights).sum(dim=1)


def packed(tensors: Iterator[tuple[str, Any]]) -> Iterator[bytes]:
    """A stream of tensors: for each the length of its header, the header in JSON, its bytes; then a zero length."""
    for name, tensor in tensors:
        tensor = tensor.contiguous()
        size = tensor.numel() * tensor.element_size()
        about = {"name": name, "dtype": NAMES[str(tensor.dtype)], "shape": list(tensor.shape), "bytes": size}
        head = json.dumps(about).encode()
        yield struct.pack("<I", len(head)) + head
        for at in range(0, size, BLOCK):
            yield ctypes.string_at(tensor.data_ptr() + at, min(BLOCK, size - at))
    yield struct.pack("<I", 0)
