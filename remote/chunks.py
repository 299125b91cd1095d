"""The chunk files that the hook leaves: read lazily, counted until every rank has written its last pass."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from remote import tensorfile
from remote.capture_rows import Segment, parents_of_tree

SCHEMA = "workbook.taps/1"
ROW_KEYS = ("token_ids", "positions")


class CaptureFailed(Exception):
    """A capture that cannot be put together; printed as the JSON error of design.md."""

    def __init__(self, code: str, message: str, *, expected: str, next: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "expected": expected, "next": next}


@dataclass(frozen=True)
class Chunk:
    """One pass of one rank: where it is, what it says about itself, its rows' ids and positions, its tensors."""

    path: Path
    step: int
    about: dict[str, Any]
    token_ids: list[int]
    positions: list[int]
    tensors: dict[str, tuple[torch.dtype, tuple[int, ...]]]

    def segments(self) -> list[Segment]:
        """One segment per request of the pass."""
        found = []
        row = 0
        for i, (pool, length) in enumerate(self.about["segments"]):
            end = row + length
            parents: tuple[int, ...] | None = None
            if self.about["mode"] == "TARGET_VERIFY":
                tree = self.about.get("tree")
                parents = parents_of_tree(tree["next"][i], tree["sibling"][i]) if tree else tuple(range(-1, length - 1))
            if length:
                tokens, positions = tuple(self.token_ids[row:end]), tuple(self.positions[row:end])
                prefill = self.about["mode"] not in ("TARGET_VERIFY", "DECODE")
                found.append(Segment(self.step, pool, row, tokens, positions, parents, prefill))
            row = end
        return found


def read_chunk(path: Path, step: int) -> Chunk:
    """Read a chunk's header, ids and positions; the rest stays on disk."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("schema") != SCHEMA:
                raise ValueError(f"schema {metadata.get('schema')!r}, not {SCHEMA!r}")
            about = json.loads(metadata["about"])
            names = [name for name in file.keys() if name not in ROW_KEYS]  # noqa: SIM118 - no mapping
            tensors = {name: file.get_slice(name) for name in names}
            specs = {name: (dtype_of(piece.get_dtype()), tuple(piece.get_shape())) for name, piece in tensors.items()}
            ids, positions = (file.get_tensor(name).tolist() for name in ROW_KEYS)
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise CaptureFailed(
            "WB-CAPTURE-CHUNK",
            f"{path.name} is no chunk of a capture ({error})",
            expected="files that remote/taps.py wrote, of this version",
            next="capture again into a new folder",
        ) from error
    return Chunk(path, step, about, ids, positions, specs)


def dtype_of(name: str) -> torch.dtype:
    return next(dtype for dtype, code in tensorfile.DTYPES.items() if code == name)


def wait_for_ranks(chunks: Path, ranks: int, patience: float, *, own_passes: bool = False) -> dict[int, list[Path]]:
    """The chunk files of each rank, once every rank has written as many as the others.

    The answer that ends a capture comes from rank 0; the others may still be writing their last pass.

    Args:
        own_passes: each rank has passes of its own (data-parallel attention): settled when nothing more comes.
    """
    deadline = time.monotonic() + patience
    before: dict[int, int] | None = None
    while True:
        by_rank: dict[int, list[Path]] = {r: sorted(chunks.glob(f"rank{r}.*.safetensors")) for r in range(ranks)}
        counts = {rank: len(paths) for rank, paths in by_rank.items()}
        if own_passes:
            settled = max(counts.values()) > 0 and counts == before
        else:
            settled = min(counts.values()) > 0 and len(set(counts.values())) == 1
        settled = settled and not list(chunks.glob("*.part"))
        if settled or time.monotonic() > deadline:
            break
        before = counts
        time.sleep(1.0 if own_passes else 0.1)
    for report in sorted(chunks.glob("error.rank*.json")):
        failure = json.loads(report.read_text())
        raise CaptureFailed(
            "WB-CAPTURE-HOOK",
            f"the hook gave up on rank {failure['rank']}: {failure['error']}",
            expected="passes whose arguments are those of SGLang 0.5.9",
            next=f"read {report} on the box",
        )
    if not max(counts.values()):
        raise CaptureFailed(
            "WB-CAPTURE-EMPTY",
            "no forward pass reached the hook",
            expected="a server started with a capture profile, CUDA graphs disabled",
            next="workbook logs BOX RUN; look for `Registered forward hook`",
        )
    if not settled and not own_passes:
        raise CaptureFailed(
            "WB-CAPTURE-RANKS",
            f"the ranks wrote unequal numbers of passes: {counts}",
            expected=f"{ranks} ranks with the same passes, from a server without other traffic",
            next="capture again while nobody else uses the server",
        )
    return by_rank
