"""Reader of ``workbook.capture/1``: lazy, checked against its own header, capture.json and (on request) its hashes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.notebook_text import Worded
from helpers.tensors.capture_info import SCHEMA as SCHEMA
from helpers.tensors.capture_info import File as File
from helpers.tensors.capture_info import Info as Info
from helpers.tensors.capture_info import Model as Model
from helpers.tensors.capture_info import Request as Request
from helpers.tensors.capture_info import read_info as read_info
from helpers.tensors.header import Entry, read_header


@dataclass(frozen=True)
class Rank:
    """One rank's file. Tensors stay on disk until they are asked for, and come in the engine's dtype."""

    path: Path
    rank: int
    entries: dict[str, Entry]

    @cached_property
    def token_ids(self) -> Int64[Tensor, " T"]:
        return self.tensor("token_ids")

    @cached_property
    def positions(self) -> Int64[Tensor, " T"]:
        return self.tensor("positions")

    @cached_property
    def request(self) -> Int32[Tensor, " T"]:
        return self.tensor("request")

    @cached_property
    def feed_rows(self) -> Int64[Tensor, " F"] | None:
        """The row of each feed row; None where there is no feed."""
        if "feed" not in self.entries:
            return None
        return self.tensor("feed_rows") if "feed_rows" in self.entries else torch.arange(len(self.token_ids))

    @property
    def boundaries(self) -> list[int]:
        """The boundaries that were captured, ascending."""
        return sorted(int(name.split(".")[1]) for name in self.entries if name.startswith("boundary."))

    @property
    def feed_width(self) -> int | None:
        """W, the width of what ``fc`` received; K * H when all is well."""
        return self.entries["feed"].shape[1] if "feed" in self.entries else None

    def tensor(self, name: str) -> Tensor:
        """A whole tensor, mapped from the file: what is not used is not read."""
        return self.mapped[name]

    def rows(self, name: str, index: Int64[Tensor, " N"]) -> Tensor:
        """Some rows of a tensor, in the order of ``index``."""
        return self.mapped[name][index]

    @cached_property
    def mapped(self) -> dict[str, Tensor]:
        """All tensors as views of the mapped file. One that is not aligned to its type, which is rare, is copied."""
        size = max((entry.stop for entry in self.entries.values()), default=0)
        if size == 0:
            return {}
        whole = torch.from_file(str(self.path), shared=False, size=size, dtype=torch.uint8)
        return {name: view_of(whole, entry) for name, entry in self.entries.items()}


def view_of(whole: Tensor, entry: Entry) -> Tensor:
    if entry.start == entry.stop:
        return torch.empty(entry.shape, dtype=entry.dtype)
    data = whole[entry.start : entry.stop]
    data = data.clone() if entry.start % entry.dtype.itemsize else data
    return data.view(entry.dtype).view(entry.shape)


@dataclass(frozen=True)
class Capture(Worded):
    """A capture on disk: what was served (`info`) and the tensors of each rank."""

    path: Path
    info: Info
    ranks: list[Rank]

    @property
    def slots(self) -> int | None:
        """K, where the feed's width is a multiple of the hidden size."""
        width = self.ranks[0].feed_width
        return width // self.info.model.hidden_size if width and width % self.info.model.hidden_size == 0 else None

    def __str__(self) -> str:
        info, rows = self.info, sum(request.length for request in self.info.requests)
        ladder = self.ranks[0].boundaries
        taps = f"boundaries {ladder[0]} to {ladder[-1]}" if ladder else "no boundaries"
        if ladder and ladder != list(range(ladder[0], ladder[-1] + 1)):
            taps = f"boundaries {', '.join(map(str, ladder))}"
        width = self.ranks[0].feed_width
        return (
            f"run {info.run} ({info.engine.name} {info.engine.version}): {len(info.requests)} requests, {rows} tokens, "
            f"{len(self.ranks)} rank{'s' if len(self.ranks) != 1 else ''}; {taps}, {info.model.hidden_size} wide; "
            + (f"feed {width} wide" if width else "no feed")
        )

    def __repr__(self) -> str:
        return f"Capture({str(self.path)!r}, run={self.info.run!r}, ranks={len(self.ranks)})"


def read_capture(path: Path | str, *, verify: bool = False) -> Capture:
    """Open a capture directory; with ``verify`` hash its files as well.

    Raises:
        UsageError: with a code ``WB-CAPTURE-...`` or ``WB-TENSORS-...`` that names the file and what was expected.
    """
    path = Path(path)
    info = read_info(path)
    ranks = [open_rank(path, info, file, verify) for file in sorted(info.files, key=lambda file: file.rank)]
    check_ranks(path, info, ranks)
    return Capture(path, info, ranks)


def check_ranks(path: Path, info: Info, ranks: list[Rank]) -> None:
    """Every rank has a file, and the requests lie within its rows."""
    have = [rank.rank for rank in ranks]
    if have != list(range(info.tp_size)):
        raise UsageError(
            "WB-CAPTURE-RANK-MISSING",
            f"{path}/capture.json lists the files of ranks {have}, and tp_size {info.tp_size}",
            expected=f"one file for each rank 0 to {info.tp_size - 1}",
            next="capture again, or pull the whole folder again",
        )
    check_requests(path, info, ranks)


def check_requests(path: Path, info: Info, ranks: list[Rank]) -> None:
    """Each request lies within the rows: those of every rank, or (where ranks hold other tokens) those of all."""
    rows = [rank.entries["token_ids"].shape[0] for rank in ranks]
    total = sum(rows)
    if total == 0:
        raise UsageError(
            "WB-CAPTURE-LAYOUT",
            f"{path} holds no rows: {len(info.requests)} requests, 0 tokens",
            expected="a row for each token that passed the server, at least one",
            next="capture again: workbook capture BOX RUN --prompts FILE",
        )
    for request in info.requests:
        if request.start + request.length > total:
            raise UsageError(
                "WB-CAPTURE-LAYOUT",
                f"{path}: request {request.id} ends at row {request.start + request.length} of {total}",
                expected="requests within the rows of the rank files",
                next="capture again with this version of the workbook",
            )


def open_rank(path: Path, info: Info, file: File, verify: bool) -> Rank:
    where = path / file.name
    there = Path(file.name).name == file.name and where.is_file()
    check_file(where, info, file, where.stat().st_size if there else None)
    rank = Rank(where, file.rank, read_header(where))
    check_layout(rank, info)
    if verify:
        check_hash(where, file, sha256_of(where))
    return rank


def check_file(where: Path, info: Info, file: File, size: int | None) -> None:
    """A rank's file is there and as long as capture.json says; ``size`` is None where it is not."""
    if size is None:
        raise UsageError(
            "WB-CAPTURE-RANK-MISSING",
            f"{where} is not there (rank {file.rank})",
            expected=f"the files that capture.json lists: {[f.name for f in info.files]}",
            next="pull the whole folder again",
        )
    if size != file.bytes:
        raise UsageError(
            "WB-CAPTURE-TRUNCATED",
            f"{where} has {size} bytes, capture.json says {file.bytes}",
            expected=f"{file.bytes} bytes",
            next="pull the file again: workbook pull BOX PATH LOCAL",
        )


def check_hash(where: Path, file: File, found: str) -> None:
    if found != file.sha256:
        raise UsageError(
            "WB-CAPTURE-TAMPERED",
            f"{where} hashes to {found[:16]}..., capture.json says {file.sha256[:16]}...",
            expected="the bytes that the box wrote",
            next="pull the file again: workbook pull BOX PATH LOCAL",
        )


def check_layout(rank: Rank, info: Info) -> None:
    """Hold the tensors against the schema: keys that must be there, types, and rows that agree."""
    integers = {"token_ids": torch.int64, "positions": torch.int64, "request": torch.int32}
    wrong = [f"{n} is missing or not {str(t)[6:]}" for n, t in integers.items() if not has(rank, n, t, 1)]
    if not wrong:
        total = rank.entries["token_ids"].shape[0]
        per_row = [n for n in rank.entries if n.split(".")[0] in (*integers, "boundary", "out", "residual", "normed")]
        wrong = [
            f"{n} has {rank.entries[n].shape[0]} rows of {total}" for n in per_row if not rows_agree(rank, n, total)
        ]
        states = [n for n in rank.entries if n.split(".")[0] in ("boundary", "out", "residual", "normed", "feed")]
        wrong += [f"{n} is no states [rows, width] in a floating dtype" for n in states if not is_state(rank, n)]
        feed = rank.entries.get("feed")
        if feed is not None and not wrong:
            listed = rank.entries.get("feed_rows")
            fits = feed.shape[0] == (listed.shape[0] if listed is not None else total)
            wrong += (
                [] if fits else [f"feed has {feed.shape[0]} rows, feed_rows {listed.shape if listed else 'is absent'}"]
            )
    if wrong:
        raise UsageError(
            "WB-CAPTURE-LAYOUT",
            f"{rank.path}: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""),
            expected="token_ids and positions int64 [T], request int32 [T], boundary.NNN [T, H], feed [F, W]",
            next="capture again with this version of the workbook",
        )


def has(rank: Rank, name: str, dtype: torch.dtype, dims: int) -> bool:
    entry = rank.entries.get(name)
    return entry is not None and entry.dtype == dtype and len(entry.shape) == dims


def is_state(rank: Rank, name: str) -> bool:
    entry = rank.entries[name]
    return entry.dtype.is_floating_point and len(entry.shape) == 2 and entry.shape[1] > 0


def rows_agree(rank: Rank, name: str, total: int) -> bool:
    return rank.entries[name].shape[:1] == (total,)


def sha256_of(path: Path) -> str:
    """The hash of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()
