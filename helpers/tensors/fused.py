"""The products behind `paired.compare_rows` by compiled code, for large stacks: each row is read once, in its own dtype.

bfloat16 and float32 are read as they lie. Other types (float16, float8, float64), sides of two types and rows whose
features do not lie side by side are converted to float32 by torch, a block at a time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from helpers.progress import slow
from helpers.tensors import kernels
from helpers.tensors.health import weights_of
from helpers.tensors.pieces import Piece, Run, Total, hashes, over
from helpers.tensors.streaming import sound_sums

BUDGET = 64 << 20  # bytes of rows that all threads may have copied at a time, where rows have to be copied
PIECE = 1024  # tokens whose inner products are gathered before anything is made of them
FEW = 8  # tokens are read together at least, whatever that takes
CACHE = 1 << 18  # bytes of widened rows of one tile, so that a wide ladder's stay in the second-level cache


@dataclass(frozen=True)
class Block:
    """Rows of one side as the kernels take them: bits, distances in numbers, and int64 words where they fit."""

    bits: Any
    step: int
    slot: int
    words: Any

    @property
    def shift(self) -> np.uint32:
        return np.uint32(16 if self.bits.dtype.itemsize == 2 else 0)


NO_WORDS = np.zeros(0, np.int64)


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


def blocks(run: Run, one: slice, two: slice) -> tuple[Block, Block, Tensor, Tensor]:
    """Rows of a and of b, and what was read for them."""
    x, y = run.a.rows.read(one), run.b.rows.read(two)
    kind = x.dtype if x.dtype == y.dtype == torch.bfloat16 else torch.float32
    return block_of(x, kind), block_of(y, kind), x, y


def step_of(run: Run) -> int:
    """How many tokens are read together."""
    return max(FEW, min(PIECE, BUDGET // (2 * run.threads * max(run.k, run.l) * run.hidden * 4)))


def sums(run: Run, part: slice) -> tuple[list[Tensor], int]:
    """As `streaming.sums`."""
    total, counted, step = torch.zeros(run.k + run.l, run.hidden, dtype=torch.float64), 0, step_of(run)
    for start in range(part.start, part.stop, step):
        place = slice(start, min(start + step, part.stop))
        one, two, _, _ = blocks(run, place, place)
        keep, here = run.keep[place], torch.zeros(run.k + run.l, run.hidden)
        for side, out in zip((one, two), here.split([run.k, run.l]), strict=True):  # type: ignore[no-untyped-call]
            kernels.add_up(side.bits, side.step, side.slot, side.shift, keep.numpy(), out.numpy())
        added, count = (here, int(keep.sum())) if torch.isfinite(here.sum()) else sound_sums(run, place)
        total += added
        counted += count
    return list(total.split([run.k, run.l])), counted  # type: ignore[no-untyped-call]


def stretch(run: Run, part: slice) -> Total:
    """As `streaming.stretch`."""
    total, step = run.total(), step_of(run)
    for start in range(part.start, part.stop, PIECE):
        piece = Fused(run, start, min(start + PIECE, part.stop))
        for at in range(piece.start, piece.stop, step):
            piece.read(at, min(at + step, piece.stop))
        piece.add(total)
    return total


class Fused(Piece):
    """A piece whose inner products are taken by compiled code. Lengths and products are float64 here."""

    def __init__(self, run: Run, start: int, stop: int) -> None:
        super().__init__(run, start, stop)
        count, around, self.wanted = stop - start, stop - start + 2 * run.edge, sorted({0, *run.shifts})
        self.means = (run.a.mean, run.b.mean) if run.a.mean is not None and run.b.mean is not None else None
        wide = len(self.wanted) * run.l
        self.raw = doubles(count, run.k), doubles(around, run.l), doubles(count, run.k, wide)
        some = 0 if self.means is None else 1
        self.middle = doubles(count, run.k), doubles(around, run.l), doubles(count * some, run.k, wide)

    def read(self, start: int, stop: int) -> None:
        """Take the products of some tokens of the piece."""
        run, edge = self.run, self.run.edge
        first, last = max(0, start - edge), min(run.tokens, stop + edge)
        one, two, x, y = blocks(run, slice(start, stop), slice(first, last))
        count, at = stop - start, start - self.start
        weights, marks = self.hashed(one, two, x, y[start - first : stop - first], start, stop)
        squares = [doubles(n, k) for _ in "rm" for n, k in ((count, run.k), (count + 2 * edge, run.l))]
        there = slice(at, at + count)
        kernels.products(
            *(one.bits, one.step, one.slot, two.bits, two.step, two.slot, first - (start - edge), last - first),
            *(one.shift, run.hidden, tile_of(run), np.array(self.wanted) + edge, *self.mean_rows()),
            *(one.words, two.words, weights, *(part.numpy() for part in squares)),
            *(self.raw[2][there].numpy(), self.middle[2][there].numpy(), *marks),
        )
        for known, (mine, theirs) in zip((self.raw, self.middle), (squares[:2], squares[2:]), strict=True):
            known[0][there] = mine.sqrt()
            known[1][at : at + count + 2 * edge] = theirs.sqrt()
        self.norms_a, self.norms_b = self.raw[:2]

    def hashed(self, one: Block, two: Block, x: Tensor, y: Tensor, start: int, stop: int) -> tuple[Any, list[Any]]:
        """Weights and places for hashes that the kernel takes; torch takes those of rows that are no whole words."""
        sides = (self.run.a, self.run.b)
        none = [np.zeros((0, 0), np.int64) for _ in sides]
        if sides[0].hashes is None or sides[1].hashes is None:
            return NO_WORDS, none
        same = x.dtype.itemsize == y.dtype.itemsize == one.bits.dtype.itemsize == two.bits.dtype.itemsize
        if same and len(one.words) and len(two.words):
            places = [side.hashes[start:stop].numpy() for side in sides if side.hashes is not None]
            return weights_of(self.run.hidden * x.dtype.itemsize // 8).numpy(), places
        sides[0].hashes[start:stop], sides[1].hashes[start:stop] = hashes(x), hashes(y)
        return NO_WORDS, none

    def mean_rows(self) -> tuple[Any, Any]:
        if self.means is None:
            none = np.zeros((0, self.run.hidden), np.float32)
            return none, none
        return self.means[0].numpy(), self.means[1].numpy()

    def cosines(self, shift: int) -> tuple[Tensor, Tensor | None]:
        """Cosines [n, K, L] of a's features with b's, so many rows on; and centred ones."""
        return self.over(self.raw, shift), None if self.means is None else self.over(self.middle, shift)

    def over(self, known: tuple[Tensor, Tensor, Tensor], shift: int) -> Tensor:
        mine, theirs, dots = known
        at, there = self.wanted.index(shift) * self.run.l, self.run.edge + shift
        return over(dots[:, :, at : at + self.run.l], mine, theirs[there : there + len(mine)])


def doubles(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def tile_of(run: Run) -> int:
    """How many features are worked on at once: rows of one tile and their neighbours' stay in the cache."""
    rows = run.k + (2 * run.edge + 1) * run.l
    return max(128, min(512, CACHE // (8 * rows) // 128 * 128))


def ready(run: Run) -> None:
    """Compile for the stacks' dtype, or load what an earlier process compiled; says so where it takes over two seconds.

    A cache that cannot be written is done without: the code is there for this process.
    """
    tiny = Run(*(side.rows for side in (run.a, run.b)), (0,), False, run.keep)
    with slow("comparison", "compiling, once on a machine"):
        for take in (sums, stretch):
            with suppress(OSError):
                take(tiny, slice(0, 1))
