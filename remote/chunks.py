"""The chunk files that the hook leaves: read lazily, counted until every rank has written its last pass."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from remote import tensorfile
from remote.capture_rows import Segment, parents_of_tree

SCHEMA = "workbook.taps/1"
#: What the system says of a disk that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT)
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


def sizes(paths: Iterable[Path]) -> dict[str, int]:
    """Name -> bytes of the files that are still there."""
    found: dict[str, int] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # it got its real name meanwhile
            found[path.name] = path.stat().st_size
    return found


def free(folder: Path) -> int:
    """Bytes that this user may still write there, as far as the disk says (a quota it does not)."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def gave_up(report: Path) -> CaptureFailed:
    """What a rank's hook left behind as it gave up."""
    failure = json.loads(report.read_text() or "{}")
    # An empty one is of a disk that took no more than its name.
    number = failure.get("errno") if failure else errno.ENOSPC
    who = f"the hook gave up on rank {failure.get('rank', report.name.split('.')[1].removeprefix('rank'))}"
    if number in FULL:
        return disk_full(report.parent, who)
    return CaptureFailed(
        "WB-CAPTURE-HOOK",
        f"{who}: {failure['error']}",
        expected="passes whose arguments are those of SGLang 0.5.9"
        if number is None
        else "a folder that every rank of the server can write to",
        next=f"read {report} on the box",
    )


def disk_full(folder: Path, what: str) -> CaptureFailed:
    """The refusal of a disk, or of a quota."""
    return CaptureFailed(
        "WB-DISK-FULL",
        f"{what}: no room is left for the capture in {folder} (the disk has {free(folder) >> 20} MiB, a quota may have "
        "less)",
        expected="room for the taps of every rank twice: as they are written, and as they are put together",
        next="capture less (--limit N, --boundaries LIST), or make room: workbook run BOX -- df -h .workbook",
    )


def dtype_of(name: str) -> torch.dtype:
    return next(dtype for dtype, code in tensorfile.DTYPES.items() if code == name)


def wait_for_ranks(chunks: Path, ranks: int, patience: float, *, own_passes: bool = False) -> dict[int, list[Path]]:
    """The chunk files of each rank, once every rank has written as many as the others.

    The answer that ends a capture comes from rank 0; the others may still be writing their last pass, on a slow disk
    for minutes: they are waited for while their files grow.

    Args:
        patience: seconds for which no file has grown, after which no more is waited for.
        own_passes: each rank has passes of its own (data-parallel attention): settled when nothing more comes.
    """
    since, grown = time.monotonic(), None
    before: dict[int, int] | None = None
    while True:
        by_rank: dict[int, list[Path]] = {r: sorted(chunks.glob(f"rank{r}.*.safetensors")) for r in range(ranks)}
        counts = {rank: len(paths) for rank, paths in by_rank.items()}
        if own_passes:
            settled = max(counts.values()) > 0 and counts == before
        else:
            settled = min(counts.values()) > 0 and len(set(counts.values())) == 1
        # safetensors has temporary names of its own: whatever is no chunk yet may become one.
        parts = sizes(path for path in chunks.glob("*") if path.suffix not in (".safetensors", ".json"))
        settled = settled and not parts
        if (counts, parts) != grown:
            since, grown = time.monotonic(), (counts, parts)
        reports = sorted(chunks.glob("error.rank*.json"))
        if settled or reports or time.monotonic() - since > patience:
            break
        before = counts
        time.sleep(1.0 if own_passes else 0.1)
    if reports:
        raise gave_up(reports[0])
    largest = max(sizes(chunks.glob("*")).values(), default=0)
    if not settled and largest and largest > free(chunks):  # a rank could not even say so
        raise disk_full(chunks, f"one more pass of {largest} bytes does not fit")
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
            f"the ranks wrote unequal numbers of passes, and for {patience:g} s no more came: {counts}",
            expected=f"{ranks} ranks that live, with the same passes, from a server without other traffic",
            next="look whether a rank is stuck (workbook logs BOX RUN), and capture again while nobody else uses the "
            "server",
        )
    return by_rank
