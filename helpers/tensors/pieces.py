"""One comparison of two stacks under way: the two sides, and what is made of a piece's inner products.

The products themselves come from `streaming` (torch, block by block) or from `fused` (compiled): both fill a `Piece`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.tensors.dumps import Sample
from helpers.tensors.health import row_hash


@dataclass(frozen=True)
class Rows:
    """T rows of K features of width H that can be read in pieces: ``read(slice)`` gives [n, K, H] in any dtype."""

    shape: tuple[int, int, int]
    read: Callable[[slice], Tensor]

    @staticmethod
    def of(x: Tensor | Sample) -> Rows:
        """Rows of a tensor [T, K, H] (mapped or not), or of a dump's sample."""
        if isinstance(x, Tensor):
            tokens, slots, hidden = x.shape
            return Rows((tokens, slots, hidden), lambda part: x[part])
        states = x.open()
        return Rows(states.shape, states.rows)


@dataclass
class Total:
    """Sums over the tokens that count, of one stretch."""

    matrix: Tensor
    centred: Tensor
    tokens: int = 0


@dataclass
class Side:
    """One of the two stacks, and what is known of each of its rows."""

    rows: Rows
    norms: Tensor  # [T, K]
    hashes: Tensor | None  # [T, K]
    mean: Tensor | None = None  # [K, H]


class Run:
    """One comparison: its two sides, which tokens count, and where its results go."""

    def __init__(self, a: Rows, b: Rows, shifts: tuple[int, ...], counts: bool, keep: Tensor, threads: int = 1) -> None:
        self.shifts, self.keep, self.threads = shifts, keep, threads
        self.edge = max(abs(s) for s in shifts)
        tokens, _, self.hidden = a.shape
        self.tokens = tokens
        self.a, self.b = (
            Side(x, torch.empty(x.shape[:2]), torch.empty(x.shape[:2], dtype=torch.int64) if counts else None)
            for x in (a, b)
        )
        self.k, self.l = a.shape[1], b.shape[1]
        self.cosine, self.centred = torch.empty(2, tokens, min(self.k, self.l)).unbind()

    @property
    def values(self) -> int:
        return self.tokens * (self.k + self.l) * self.hidden

    def total(self) -> Total:
        """Sums that are still nothing."""
        shape = (len(self.shifts), self.k, self.l)
        return Total(torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64))

    def find_means(self, parts: list[tuple[list[Tensor], int]]) -> None:
        count = max(1, sum(counted for _, counted in parts))
        for number, side in enumerate((self.a, self.b)):
            side.mean = (torch.stack([totals[number] for totals, _ in parts]).sum(0) / count).float()


class Piece:
    """Some hundred tokens whose inner products are known, and what follows from them.

    A subclass fills ``norms_a`` [n, K], ``norms_b`` [n + 2 edge, L] (of the rows around as well) and tells `cosines`.
    """

    norms_a: Tensor
    norms_b: Tensor

    def __init__(self, run: Run, start: int, stop: int) -> None:
        self.run, self.start, self.stop = run, start, stop

    def cosines(self, shift: int) -> tuple[Tensor, Tensor | None]:
        """Cosines [n, K, L] of a's features with b's, so many rows on; and centred ones."""
        raise NotImplementedError

    def add(self, total: Total) -> None:
        """Write what is per token, and add up what is a mean."""
        run, edge, count = self.run, self.run.edge, self.stop - self.start
        run.a.norms[self.start : self.stop] = self.norms_a
        run.b.norms[self.start : self.stop] = self.norms_b[edge : edge + count]
        found = {shift: self.cosines(shift) for shift in {0, *run.shifts}}
        raw, middle = found[0]
        run.cosine[self.start : self.stop] = raw.diagonal(dim1=1, dim2=2)
        if middle is not None:
            run.centred[self.start : self.stop] = middle.diagonal(dim1=1, dim2=2)
        use = sound(self.norms_a) & run.keep[self.start : self.stop]
        place = torch.arange(self.start - edge, self.stop + edge)
        text = (place >= 0) & (place < run.tokens)
        good = sound(self.norms_b) & text & run.keep[place.clamp(0, run.tokens - 1)]
        for shift in found:
            use &= good[edge + shift : edge + shift + count]
        for step in (-edge, edge):  # so that all shifts are of the same tokens
            use &= text[edge + step : edge + step + count]
        used = use.nonzero().flatten()
        total.tokens += len(used)
        for number, shift in enumerate(run.shifts):
            raw, middle = found[shift]
            total.matrix[number] += raw[used].sum(dim=0, dtype=torch.float64)
            if middle is not None:
                total.centred[number] += middle[used].sum(dim=0, dtype=torch.float64)


def sound(norms: Tensor) -> Tensor:
    """Rows whose features are all finite, and none of them zero."""
    good: Tensor = (torch.isfinite(norms) & (norms > 0)).all(dim=1)
    return good


def hashes(x: Tensor) -> Tensor:
    """A number for each feature [n, K] of rows [n, K, H]."""
    return row_hash(x.reshape(-1, x.shape[-1])).view(x.shape[:2])


def over(dots: Tensor, one: Tensor, two: Tensor) -> Tensor:
    """Inner products over lengths; a zero vector is like nothing."""
    return dots / (one.unsqueeze(2) * two.unsqueeze(1)).clamp(min=1e-24)
