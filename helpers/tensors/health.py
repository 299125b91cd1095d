"""Rows that are broken whatever they mean: not finite, all zero, or the same for different tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


@dataclass
class Health:
    """Gathers, block by block, what is broken in named features. Places are what the caller calls its rows."""

    non_finite: dict[str, list[int]] = field(default_factory=dict)
    zero: dict[str, list[int]] = field(default_factory=dict)
    hashes: dict[str, list[Tensor]] = field(default_factory=dict)
    seen: dict[str, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)  # places [n], tokens [n, S]

    def finite(self, name: str, x: Tensor, places: Int64[Tensor, " N"]) -> Bool[Tensor, " N"]:
        """Which rows are finite; the others are counted."""
        x = x.float() if x.dtype.itemsize == 1 else x
        if math.isfinite(float(x.sum(dtype=torch.float64))):  # one NaN makes it NaN, one infinity infinite
            return torch.ones(len(x), dtype=torch.bool)
        good = torch.isfinite(x).flatten(1).all(dim=1)
        if not good.all():
            self.non_finite.setdefault(name, []).extend(places[~good].tolist())
        return good

    def rows(self, name: str, x: Tensor, places: Int64[Tensor, " N"], tokens: Int64[Tensor, "N S"]) -> None:
        """Note the rows of a feature [N, H]: which are zero, and what tells them apart.

        ``tokens`` are each row's own, and its neighbours': rows that stand a token off are not stale for that.
        """
        empty = (x == 0).all(dim=1) if x.dtype.itemsize > 1 else (x.float() == 0).all(dim=1)
        if empty.any():
            self.zero.setdefault(name, []).extend(places[empty].tolist())
        keep = ~empty
        self.hashes.setdefault(name, []).append(row_hash(x[keep]))
        self.seen.setdefault(name, []).append((places[keep], tokens[keep]))

    def repeated(self, name: str) -> list[int]:
        """Places whose row is that of another token as well; the first of each such group counts too.

        Equal texts give equal rows, and an embedding's rows are equal for equal tokens. So equal rows are stale only
        where their tokens differ, and those of the rows a step on or back (the same step for all) differ as well.
        """
        if not self.hashes.get(name):
            return []
        hashes = torch.cat(self.hashes[name])
        places, tokens = (torch.cat([pair[i] for pair in self.seen[name]]) for i in (0, 1))
        _, group = torch.unique(hashes, return_inverse=True)
        if len(hashes) == 0 or int(group.max()) + 1 == len(hashes):
            return []
        found: list[list[int]] = []
        for column in tokens.T:
            low = torch.full((int(group.max()) + 1,), torch.iinfo(torch.int64).max)
            low = low.scatter_reduce(0, group, column, "amin")
            high = torch.full_like(low, -1).scatter_reduce(0, group, column, "amax")
            found.append([int(place) for place in places[(low != high)[group]]])
        return min(found, key=len)

    def stale(self, name: str) -> list[int]:
        """Places of rows that are zero or repeat across different tokens."""
        return sorted({*self.zero.get(name, []), *self.repeated(name)})


def row_hash(x: Tensor) -> Int64[Tensor, " N"]:
    """A number for each row, equal for equal bits: the same in whatever block the row is looked at."""
    x = x.contiguous()
    if x.storage_offset() * x.dtype.itemsize % 8:  # torch views no words that start inside one
        x = x.clone()
    words = x.view(torch.uint8 if x.shape[1] * x.dtype.itemsize % 8 else torch.int64)
    mixed = words.long() if words.dtype == torch.uint8 else words ^ (words >> 31)  # high bits count as low ones do
    return (mixed * weights_of(words.shape[1])).sum(dim=1)


@lru_cache(maxsize=8)
def weights_of(width: int) -> Int64[Tensor, " W"]:
    """Odd numbers that differ in all their bits, one for each word of a row."""
    return torch.arange(1, width + 1) * 0x9E3779B97F4A7C1 % 0x7FFFFFFFFFFFFFE7 | 1
