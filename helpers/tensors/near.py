"""A capture that stays on the box: its small tensors come, and of the others rows or sketches as they are needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.apart import Apart, other_shape
from helpers.tensors.capture import (
    Capture,
    File,
    Info,
    Rank,
    check_file,
    check_hash,
    check_layout,
    check_ranks,
)
from helpers.tensors.capture_info import missing, parse_info
from helpers.tensors.header import TORCH_DTYPES, entry_of, foreign

SMALL = ("token_ids", "positions", "request", "feed_rows")


@runtime_checkable
class Asked(Protocol):
    """Somebody beside the data who answers what remote/near_data.py does; `helpers.box.near.NearData` is one."""

    sent: int
    received: int

    def ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]: ...
    def stream(self, operation: str, request: dict[str, Any]) -> bytes: ...


@dataclass(frozen=True)
class NearRank(Rank):
    """One rank's file on the box. What was fetched of it is kept."""

    asked: Asked = field(kw_only=True, repr=False)
    wholes: dict[str, Tensor] = field(default_factory=dict, kw_only=True, repr=False)
    parts: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict, kw_only=True, repr=False)
    apart: dict[tuple[int, str], Apart] = field(default_factory=dict, kw_only=True, repr=False)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor: all its bytes travel."""
        if name not in self.wholes:
            self.wholes[name] = self.fetch(name, None)
        return self.wholes[name]

    def rows(self, name: str, index: Int64[Tensor, " N"]) -> Tensor:
        """Some rows; those that were fetched before do not travel again."""
        entry = self.entries[name]
        if name in self.wholes or len(entry.shape) != 2:
            return self.tensor(name)[index]
        # Room for all of them costs nothing until it is written to.
        fresh = torch.zeros(entry.shape[0], dtype=torch.bool), torch.empty(entry.shape, dtype=entry.dtype)
        have, held = self.parts.setdefault(name, fresh)
        wanted = torch.unique(index[~have[index]])
        if len(wanted):
            held[wanted] = self.fetch(name, wanted)
            have[wanted] = True
        return held[index]

    def fetch(self, name: str, index: Tensor | None) -> Tensor:
        how: dict[str, Any] = {"rows": None if index is None else "rows", "as": "ids" if name in SMALL else "rows"}
        feature = {"key": name, "files": [str(self.path)], "names": [name], **how}
        rows = {} if index is None else {"rows": index.tolist()}
        found = unpack(self.asked.stream("take", {"features": [feature], "rows": rows}))[name]
        return found.to(self.entries[name].dtype)

    def differences(self, other: Rank, hidden: int) -> dict[str, Apart]:
        """How far the other's tensors are from this one's, as `helpers.tensors.view.difference` measures it."""
        names = sorted((self.entries.keys() & other.entries.keys()) - set(SMALL))
        missing = [name for name in names if (other.rank, name) not in self.apart]
        if missing:
            request = {"first": str(self.path), "other": str(other.path), "names": missing, "hidden": hidden}
            for name, found in self.asked.ask("differences", request)["differences"].items():
                rows = self.entries[name].shape[0]
                self.apart[other.rank, name] = other_shape(rows) if found is None else Apart(**found)
        return {name: self.apart[other.rank, name] for name in names}


@dataclass(frozen=True)
class NearCapture(Capture):
    """A capture on the box."""

    asked: Asked = field(kw_only=True, repr=False)

    @property
    def traffic(self) -> dict[str, int | float]:
        """``bytes`` of all requests and answers so far, of how many ``of`` the capture's files (replicas once)."""
        moved = self.asked.sent + self.asked.received
        whole = sum({file.sha256: file.bytes for file in self.info.files}.values())
        return {"bytes": moved, "of": whole, "share": round(moved / max(1, whole), 6)}


def open_near(asked: Asked, path: str, *, verify: bool = True) -> NearCapture:
    """Open a capture directory on a box, held against its own headers, capture.json and hashes there.

    Raises:
        UsageError: as `read_capture`. RemoteFailed: ``WB-NEAR-DATA`` where the box cannot tell.
    """
    answer = asked.ask("open", {"path": path, "verify": verify})
    folder = Path(answer["path"])
    if answer["info"] is None:
        raise missing(folder, here=False)
    info = parse_info(folder / "capture.json", answer["info"])
    ranks: list[Rank] = []
    hashes: list[dict[str, str]] = []
    for file in sorted(info.files, key=lambda file: file.rank):
        told = answer["files"].get(file.name)
        check_file(folder / file.name, info, file, None if told is None else told["bytes"])
        if verify:
            check_hash(folder / file.name, file, told["sha256"])
        ranks.append(open_rank(asked, folder, info, file, told))
        hashes.append(told["keys"])
    check_ranks(folder, info, ranks)
    fetch_keys(asked, [rank for rank in ranks if isinstance(rank, NearRank)], hashes)
    return NearCapture(folder, info, ranks, asked=asked)


def open_rank(asked: Asked, folder: Path, info: Info, file: File, told: dict[str, Any]) -> NearRank:
    path = folder / file.name
    if "broken" in told:
        raise foreign(path, told["broken"])
    try:
        entries = {name: entry_of(item, told["start"]) for name, item in told["header"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise foreign(path, f"its header at offset 8 is not one of safetensors: {error}") from error
    rank = NearRank(path, file.rank, entries, asked=asked)
    check_layout(rank, info)
    return rank


def fetch_keys(asked: Asked, ranks: Sequence[NearRank], hashes: Sequence[dict[str, str]]) -> None:
    """Token ids, positions, requests and feed rows of each rank; those of a replica travel once."""
    features, twins = [], []
    first: dict[tuple[str, str], str] = {}
    for rank, told in zip(ranks, hashes, strict=True):
        for name in SMALL:
            if name not in rank.entries:
                continue
            key = f"{rank.rank}/{name}"
            twin = first.setdefault((name, told[name]), key)
            twins.append((rank, name, twin))
            if twin == key:
                features.append({"key": key, "files": [str(rank.path)], "names": [name], "rows": None, "as": "ids"})
    found = unpack(asked.stream("take", {"features": features, "rows": {}}))
    for rank, name, twin in twins:
        rank.wholes[name] = found[twin].to(rank.entries[name].dtype)


def unpack(data: bytes) -> dict[str, Tensor]:
    """The tensors of a stream that `remote.sketches.packed` wrote."""
    found: dict[str, Tensor] = {}
    at, view = 0, bytearray(data)
    while True:
        length = int.from_bytes(view[at : at + 4], "little")
        if len(view) < at + 4 or length == 0:
            break
        about = json.loads(view[at + 4 : at + 4 + length])
        at += 4 + length
        size, dtype = about["bytes"], TORCH_DTYPES[about["dtype"]]
        if at + size > len(view):
            break
        flat = torch.frombuffer(bytearray(view[at : at + size]), dtype=dtype) if size else torch.empty(0, dtype=dtype)
        found[about["name"]] = flat.view(about["shape"])
        at += size
    if at + 4 != len(view):
        raise UsageError(
            "WB-NEAR-DATA",
            f"the box's answer ends after {len(view)} bytes, in the middle of a tensor",
            expected="tensors up to the end mark",
            next="ask again",
        )
    return found


def projection(seed: str, hidden: int, dims: int) -> Float[Tensor, "H D"]:
    """The signs that remote/sketches.py makes of the same seed, so that both sides project alike."""
    import hashlib

    drawn = hashlib.shake_256(f"{seed}/{hidden}/{dims}".encode()).digest(hidden * dims)
    bits = torch.frombuffer(bytearray(drawn), dtype=torch.uint8)
    signs = (bits & 1).float().view(hidden, dims) * 2 - 1
    return signs.div(dims**0.5)


def project(x: Float[Tensor, "N K H"], matrix: Float[Tensor, "H D"]) -> tuple[Tensor, Tensor]:
    """Sketches [N, K, D] of rows of length one, in half precision, and the rows' lengths [N, K]."""
    x = x.float()
    length = torch.linalg.vector_norm(x, dim=-1)
    return ((x / length.clamp(min=1e-30).unsqueeze(-1)) @ matrix).half(), length


# Shares of a capture's bytes that travel: for sketches of all features, and for whole rows where a slot is in doubt.
SKETCH_SHARE, TRIED_SHARE = 0.01, 0.018
LEAST_ROWS, LEAST_TRIED = 256, 80  # but so many rows, where there are as many: a small capture costs more of itself
MOST_ROWS, MOST_TRIED = 4096, 512


def near_tried(capture: NearCapture) -> int:
    """How many rows a slot in doubt is tried on."""
    rows = sum(rank.entries["token_ids"].shape[0] for rank in capture.ranks)
    return min(MOST_TRIED, max(LEAST_TRIED, int(rows * TRIED_SHARE)))


def dims_of(hidden: int) -> int:
    """How many projections stand for a row: 64 of 7168 tell distances to some percent, averaged over tokens."""
    return 64 if hidden >= 256 else max(8, hidden // 4)
