"""The products behind `paired.compare_rows` by compiled code, for large stacks: rows are read in their own dtype.

bfloat16 and float32 are read as they lie. Other types (float16, float8, float64), sides of two types and rows whose
features do not lie side by side are converted to float32 by torch, a block at a time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from helpers.progress import slow
from helpers.tensors import kernels
from helpers.tensors.health import weights_of
from helpers.tensors.pieces import Piece, Run, Total, hashes, over
from helpers.tensors.streaming import sound_sums

BUDGET = 128 << 20  # bytes of rows that all threads may have copied at a time, where rows have to be copied
PIECE = 1024  # tokens whose inner products are gathered before anything is made of them
FEW = 8  # tokens are read together at least, whatever that takes
SHORT = 1e-2  # of squared lengths: under a tenth of its parts, a row's products are taken from the row itself
CACHE = 1 << 18  # bytes of widened rows of one tile, so that a wide ladder's stay in the second-level cache


@dataclass(frozen=True)
class Block:
    """Rows of one side as the kernels take them: bits, distances in numbers, and int64 words where they fit."""

    bits: Any
    step: int
    slot: int
    words: Any

    @property
    def layout(self) -> tuple[Any, int, int]:
        return self.bits, self.step, self.slot

    @property
    def shift(self) -> np.uint32:
        return np.uint32(16 if self.bits.dtype.itemsize == 2 else 0)


NO_WORDS = np.zeros(0, np.int64)
NO_MARKS = [np.zeros((0, 0), np.int64) for _ in "ab"]


def block_of(x: Tensor, kind: torch.dtype) -> Block:
    """Rows [n, K, H] as a flat array of bits: a view where they are of the ``kind``, else converted."""
    x = x.detach().to("cpu", kind)
    if x.shape[2] > 1 and x.stride(2) != 1:
        x = x.contiguous()
    step, slot, hidden = x.stride(0), x.stride(1), x.shape[2]
    length = (x.shape[0] - 1) * step + (x.shape[1] - 1) * slot + hidden
    flat = x.as_strided((length,), (1,))
    bits = flat.view(torch.int16 if x.dtype.itemsize == 2 else torch.int32).numpy()
    per = 8 // x.dtype.itemsize
    fits = not (step % per or slot % per or hidden % per or x.data_ptr() % 8)
    words = bits.view(np.int64) if fits else NO_WORDS
    return Block(bits.view(np.uint16 if x.dtype.itemsize == 2 else np.uint32), step, slot, words)


@dataclass(frozen=True)
class Pair:
    """Both sides' blocks of tokens ``start`` to ``stop``; b's reach over the rows around as far as there is text."""

    start: int
    stop: int
    first: int  # of b's rows
    one: Block
    two: Block
    x: Tensor  # as they were read: [n, K, H]
    y: Tensor

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def own(self) -> Tensor:
        """b's rows [n, L, H] of the tokens themselves."""
        return self.y[self.start - self.first : self.stop - self.first]


def pair_of(run: Run, start: int, stop: int, edge: int) -> Pair:
    first, last = max(0, start - edge), min(run.tokens, stop + edge)
    x, y = run.a.rows.read(slice(start, stop)), run.b.rows.read(slice(first, last))
    kind = x.dtype if x.dtype == y.dtype == torch.bfloat16 else torch.float32
    return Pair(start, stop, first, block_of(x, kind), block_of(y, kind), x, y)


def step_of(run: Run) -> int:
    """How many tokens are read together."""
    return max(FEW, min(PIECE, BUDGET // (2 * run.threads * max(run.k, run.l) * run.hidden * 4)))


def sums(run: Run, part: slice) -> tuple[list[Tensor], int]:
    """As `streaming.sums`."""
    total, counted, step = doubles(run.k + run.l, run.hidden), 0, step_of(run)
    for start in range(part.start, part.stop, step):
        place = slice(start, min(start + step, part.stop))
        pair, keep = pair_of(run, place.start, place.stop, 0), run.keep[place]
        added = torch.zeros(run.k + run.l, run.hidden)
        for side, out in ((pair.one, added[: run.k]), (pair.two, added[run.k :])):
            kernels.add_up(*side.layout, side.shift, keep.numpy(), out.numpy())
        if torch.isfinite(added.sum()):
            total += added
            counted += int(keep.sum())
        else:  # a row is broken somewhere: find the others one by one
            some, count = sound_sums(run, place)
            total += some
            counted += count
    return [total[: run.k], total[run.k :]], counted


def stretch(run: Run, part: slice) -> Total:
    """As `streaming.stretch`."""
    total = run.total()
    for start in range(part.start, part.stop, PIECE):
        piece = Fused(run, start, min(start + PIECE, part.stop))
        piece.read()
        piece.add(total)
    return total


@dataclass(frozen=True)
class Products:
    """What the kernel gives of n tokens: squared lengths, and inner products. Zeros at first."""

    square_a: Tensor  # [n, K]
    square_b: Tensor  # [n + 2 edge, L]
    middle_a: Tensor  # the same without the means
    middle_b: Tensor
    along_a: Tensor  # [n, K, L]: of a's rows without the means with b's means
    along_b: Tensor  # [n + 2 edge, L, K]
    dots: Tensor  # [n, K, wanted * L]: without the means, where there are any

    @staticmethod
    def zeros(run: Run, count: int, wanted: int) -> Products:
        around = count + 2 * run.edge
        shapes = [(count, run.k), (around, run.l)] * 2 + [(count, run.k, run.l), (around, run.l, run.k)]
        return Products(*(doubles(*shape) for shape in [*shapes, (count, run.k, wanted * run.l)]))

    def arrays(self, at: int, count: int, edge: int) -> list[Any]:
        """Those of some of the tokens, as the kernel takes them."""
        around = at + count + 2 * edge
        ends = {part.name: around if part.name.endswith("_b") else at + count for part in fields(self)}
        return [getattr(self, name)[at:end].numpy() for name, end in ends.items()]


class Fused(Piece):
    """A piece whose inner products are taken by compiled code, in float64 from here on.

    Where means are taken off, the products of the rows as they are follow from the others and from products with the
    means. A row that all but cancels its mean would lose its digits that way: its tokens are looked at once more.
    """

    def __init__(self, run: Run, start: int, stop: int) -> None:
        super().__init__(run, start, stop)
        self.means = None if run.a.mean is None or run.b.mean is None else (run.a.mean, run.b.mean)
        self.wanted = sorted({0, *run.shifts})
        self.found = Products.zeros(run, stop - start, len(self.wanted))

    def read(self) -> None:
        """Take the products of all tokens of the piece."""
        step, found = step_of(self.run), self.found
        for at in range(self.start, self.stop, step):
            self.take(pair_of(self.run, at, min(at + step, self.stop), self.run.edge), found, self.means)
        self.norms_a, self.norms_b = found.square_a.sqrt(), found.square_b.sqrt()
        self.lengths_a, self.lengths_b = found.middle_a.sqrt(), found.middle_b.sqrt()
        self.raw = found.dots
        if self.means is not None:
            self.raw = found.dots + self.with_means(*self.means)
            self.look_again(self.lost(*self.means).nonzero().flatten(), step)

    def look_again(self, places: Tensor, step: int) -> None:
        """Take the products of some tokens [M] of the piece from their rows as they are."""
        while len(places):
            first = int(places[0])
            now, places = places[places < first + step], places[places >= first + step]
            start, stop = self.start + first, self.start + int(now[-1]) + 1
            found = Products.zeros(self.run, stop - start, len(self.wanted))
            self.take(pair_of(self.run, start, stop, self.run.edge), found, None, hashed=False)
            self.raw[now] = found.dots[now - first]

    def take(self, pair: Pair, out: Products, means: tuple[Tensor, Tensor] | None, *, hashed: bool = True) -> None:
        """Have the kernel add what it finds of a pair of blocks; ``out`` is of the piece, or of the blocks alone."""
        run, one, two = self.run, pair.one, pair.two
        at = pair.start - self.start if out is self.found else 0
        none = torch.zeros(0, run.hidden)
        mean_a, mean_b = (mean.numpy() for mean in means or (none, none))
        weights, marks = self.hashing(pair) if hashed else (NO_WORDS, NO_MARKS)
        kernels.products(
            *one.layout,
            *two.layout,
            pair.first - (pair.start - run.edge),
            len(pair.y),
            one.shift,
            run.hidden,
            tile_of(run),
            np.array(self.wanted) + run.edge,
            at == 0,
            mean_a,
            mean_b,
            one.words,
            two.words,
            weights,
            *out.arrays(at, pair.count, run.edge),
            *marks,
        )

    def with_means(self, mean_a: Tensor, mean_b: Tensor) -> Tensor:
        """What products of rows have over those of rows without their means [n, K, wanted * L]."""
        count, ours = self.stop - self.start, self.found.along_a + mean_a.double() @ mean_b.double().T
        theirs = self.found.along_b.transpose(1, 2)  # [n + 2 edge, K, L]
        first = [self.run.edge + shift for shift in self.wanted]
        return torch.cat([ours + theirs[at : at + count] for at in first], dim=2)

    def lost(self, mean_a: Tensor, mean_b: Tensor) -> Tensor:
        """Which tokens [n] have a row, or one around them, that is far shorter than its mean and what is beside it."""
        found, edge, count = self.found, self.run.edge, self.stop - self.start
        sides = ((found.square_a, found.middle_a, mean_a), (found.square_b, found.middle_b, mean_b))
        ours, theirs = (
            (square < SHORT * (middle + mean.double().square().sum(dim=1))).any(dim=1) for square, middle, mean in sides
        )
        place = torch.arange(self.start - edge, self.stop + edge)
        theirs &= (place >= 0) & (place < self.run.tokens)
        return torch.stack([ours, *(theirs[edge + s : edge + s + count] for s in self.wanted)]).any(dim=0)

    def hashing(self, pair: Pair) -> tuple[Any, list[Any]]:
        """Weights and places of hashes that the kernel takes; torch takes those of rows that are no whole words."""
        sides = (self.run.a, self.run.b)
        if sides[0].hashes is None or sides[1].hashes is None:
            return NO_WORDS, NO_MARKS
        size = pair.one.bits.dtype.itemsize
        as_stored = pair.x.dtype.itemsize == pair.y.dtype.itemsize == size
        if as_stored and len(pair.one.words) and len(pair.two.words):
            places = [side.hashes[pair.start : pair.stop].numpy() for side in sides if side.hashes is not None]
            return weights_of(self.run.hidden * size // 8).numpy(), places
        for side, x in zip(sides, (pair.x, pair.own), strict=True):
            if side.hashes is not None:
                side.hashes[pair.start : pair.stop] = hashes(x)
        return NO_WORDS, NO_MARKS

    def cosines(self, shift: int) -> tuple[Tensor, Tensor | None]:
        """Cosines [n, K, L] of a's features with b's, so many rows on; and centred ones."""
        at, first = self.wanted.index(shift) * self.run.l, self.run.edge + shift
        part, there = slice(at, at + self.run.l), slice(first, first + self.stop - self.start)
        raw = over(self.raw[:, :, part], self.norms_a, self.norms_b[there])
        if self.means is None:
            return raw, None
        return raw, over(self.found.dots[:, :, part], self.lengths_a, self.lengths_b[there])


def doubles(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def tile_of(run: Run) -> int:
    """How many features are worked on at once: rows of one tile and their neighbours' stay in the cache."""
    rows = run.k + (2 * run.edge + 1) * run.l
    return max(128, min(1024, CACHE // (8 * rows) // 128 * 128))


def ready(run: Run) -> None:
    """Compile for the stacks' dtype, or load what an earlier process compiled; says so where it takes over two seconds.

    A cache that cannot be written is done without: the code is there for this process.
    """
    tiny = Run(run.a.rows, run.b.rows, (0,), False, run.keep)
    with slow("comparison", "compiling"):
        for take in (sums, stretch):
            with suppress(OSError):
                take(tiny, slice(0, 1))
