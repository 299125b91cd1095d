"""A capture's rows as the model computed them, whatever part of it each rank holds.

Tensor parallelism promises replicas at a tap. What a rank may hold instead: a term that was not yet reduced (a partial
sum), a slice of the width (a feature shard), or other tokens (a token shard). `look` tells them apart tensor by tensor;
`View` then reads rows of the whole where it can be put together, and rank 0's own where it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Literal

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from helpers.tensors.align import feed_index
from helpers.tensors.apart import EQUAL, Apart, by_row, other_shape, summed_up
from helpers.tensors.capture import Capture, Rank
from helpers.tensors.near import NearRank

Kind = Literal["replicated", "partial-sum", "feature-shard", "token-shard", "other-tokens"]
KEYS = ("token_ids", "positions", "request")
BLOCK = 16 << 20  # bytes of a tensor that are looked at in one piece


@dataclass(frozen=True)
class View:
    """Rows 0 to T of the whole; row t lies on rank ``owner[t]`` as its row ``local[t]``.

    ``kinds`` has an entry for each tensor that is no replica; ``apart`` for each that is not equal bit for bit, of the
    rank that is furthest from rank 0.
    """

    capture: Capture
    token_ids: Int64[Tensor, " T"]
    positions: Int64[Tensor, " T"]
    request: Tensor
    owner: Int64[Tensor, " T"]
    local: Int64[Tensor, " T"]
    rows_kind: Kind = "replicated"
    kinds: dict[str, Kind] = field(default_factory=dict)
    apart: dict[str, Apart] = field(default_factory=dict)

    @property
    def hidden(self) -> int:
        return self.capture.info.model.hidden_size

    @property
    def boundaries(self) -> list[int]:
        """The boundaries that every rank captured."""
        common = set.intersection(*(set(rank.boundaries) for rank in self.capture.ranks))
        return sorted(common)

    @property
    def feed_width(self) -> int | None:
        """The width of the whole feed."""
        widths = [rank.feed_width for rank in self.capture.ranks]
        if None in widths or not widths:
            return None
        known = [width for width in widths if width is not None]
        return sum(known) if self.kinds.get("feed") == "feature-shard" else known[0]

    @property
    def slots(self) -> int | None:
        """K, where the feed's width is a multiple of the hidden size."""
        width = self.feed_width
        return width // self.hidden if width and width % self.hidden == 0 else None

    @cached_property
    def feed_rows(self) -> Int64[Tensor, " T"]:
        """For each row its row in its owner's feed; -1 where it has none."""
        ranks = self.capture.ranks if self.rows_kind == "token-shard" else self.capture.ranks[:1]
        parts = [feed_index(self.capture, rank=rank.rank) for rank in ranks]
        found = torch.full_like(self.owner, -1)
        for number, part in enumerate(parts):
            mine = self.owner == number
            found[mine] = part[self.local[mine]]
        return found

    @property
    def fed(self) -> Bool[Tensor, " T"]:
        """Which rows have a feed."""
        return self.feed_rows >= 0

    def rows(self, name: str, index: Int64[Tensor, " N"]) -> Tensor:
        """Some rows of a tensor of the whole [N, W]; a partial sum as rank 0 holds it."""
        place = self.feed_rows if name == "feed" else self.local
        if self.rows_kind == "token-shard":
            parts = [(self.owner[index] == rank.rank, rank) for rank in self.capture.ranks]
            out: Tensor | None = None
            for mine, rank in parts:
                if mine.any():
                    part = rank.rows(name, place[index[mine]])
                    out = part.new_empty((len(index), part.shape[1])) if out is None else out
                    out[mine] = part
            return self.capture.ranks[0].rows(name, place[index]) if out is None else out
        if self.kinds.get(name) == "feature-shard":
            pieces = [rank.rows(name, place[index]) for rank in self.capture.ranks]
            slots = (self.slots or 1) if name == "feed" else 1
            return torch.cat([piece.reshape(len(index), slots, -1) for piece in pieces], dim=2).flatten(1)
        return self.capture.ranks[0].rows(name, place[index])

    def reducible(self, boundary: int) -> bool:
        """Whether a boundary that was captured as partial sums can be put right from its two terms."""
        names = (f"out.{boundary}", f"residual.{boundary}")
        return (
            self.kinds.get(f"boundary.{boundary:03d}") == "partial-sum"
            and all(name in rank.entries for rank in self.capture.ranks for name in names)
            and self.kinds.get(names[1], "replicated") == "replicated"
        )

    def reduced(self, boundary: int, index: Int64[Tensor, " N"]) -> Tensor:
        """The true tap: residual + the sum of what the ranks have of the layer's output. In float32."""
        total = self.capture.ranks[0].rows(f"residual.{boundary}", index).float()
        for rank in self.capture.ranks:
            total = total + rank.rows(f"out.{boundary}", index).float()
        return total


def look(capture: Capture, *, slots: int | None = None) -> View:
    """Compare the ranks, tensor by tensor; equal hashes need no reading.

    Args:
        capture: of one or more ranks.
        slots: K of the dump or the drafter, where known: tells a slice of a wide feed from a narrow feed.
    """
    first, *others = capture.ranks
    hashes = {file.rank: file.sha256 for file in capture.info.files}
    others = [rank for rank in others if hashes[rank.rank] != hashes[first.rank]]
    whole = torch.zeros_like(first.token_ids), torch.arange(len(first.token_ids))
    rows = first.token_ids, first.positions, first.request
    if any(not all(torch.equal(first.tensor(key), rank.tensor(key)) for key in KEYS) for rank in others):
        shards = merge(capture.ranks)
        if shards is None:
            return View(capture, *rows, *whole, "other-tokens")
        return View(capture, *shards, "token-shard")
    kinds: dict[str, Kind] = {}
    apart: dict[str, Apart] = {}
    for name in sorted(first.entries.keys() - set(KEYS) - {"feed_rows"}):
        ranks = [rank for rank in others if name in rank.entries]
        hidden = capture.info.model.hidden_size
        worst = reduce(Apart.worse, (difference(first, rank, name, hidden) for rank in ranks), EQUAL)
        if worst.largest > 0:
            apart[name] = worst
            if sliced(capture, name, slots):
                kinds[name] = "feature-shard"
            elif worst.partial:
                kinds[name] = "partial-sum"
    return View(capture, *rows, *whole, "replicated", kinds, apart)


def merge(ranks: list[Rank]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None:
    """Rows of all ranks in the order of their texts, if each place is on one rank only."""
    tokens, positions, request = (torch.cat([rank.tensor(key) for rank in ranks]) for key in KEYS)
    place = request.long() * (int(positions.max()) + 1 if len(positions) else 1) + positions
    order = place.argsort(stable=True)
    if len(set(place.tolist())) < len(place):
        return None
    owner = torch.cat([torch.full((len(rank.token_ids),), rank.rank) for rank in ranks])
    local = torch.cat([torch.arange(len(rank.token_ids)) for rank in ranks])
    return tokens[order], positions[order], request[order], owner[order], local[order]


def sliced(capture: Capture, name: str, slots: int | None) -> bool:
    """Whether the ranks' widths are slices of a tap, or of K taps side by side."""
    hidden, ranks = capture.info.model.hidden_size, capture.ranks
    widths = [rank.entries[name].shape[1] for rank in ranks if name in rank.entries]
    if len(widths) < len(ranks):
        return False
    if name != "feed":
        return sum(widths) == hidden
    if slots is not None:
        return sum(widths) == slots * hidden
    return sum(widths) % hidden == 0 and any(width % hidden for width in widths)


def difference(first: Rank, other: Rank, name: str, hidden: int) -> Apart:
    """How far another rank's tensor is from the first's; infinitely where the shapes differ."""
    if isinstance(first, NearRank):
        return first.differences(other, hidden)[name]
    shape = first.entries[name].shape
    if shape != other.entries[name].shape:
        return other_shape(shape[0])
    found = [torch.zeros(0, dtype=torch.float64)]
    for index in blocks(first, name):
        a, b = (rank.rows(name, index).reshape(len(index), -1) for rank in (first, other))
        found.append(by_row(a, b, hidden))
    rows = first.feed_rows if name == "feed" else None
    positions = first.positions if rows is None else first.positions[rows]
    return summed_up(torch.cat(found), positions if len(positions) == shape[0] else None)


def blocks(rank: Rank, name: str) -> Iterator[Int64[Tensor, " N"]]:
    """Row numbers of a tensor, in pieces of bounded size."""
    entry = rank.entries[name]
    rows, width = entry.shape[0], entry.shape[1] if len(entry.shape) > 1 else 1
    step = max(1, BLOCK // max(1, width * entry.dtype.itemsize))
    for start in range(0, rows, step):
        yield torch.arange(start, min(start + step, rows))
