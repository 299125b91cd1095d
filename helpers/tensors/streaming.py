"""The products behind `paired.compare_rows` in torch: for stacks so small that nothing need be compiled for them.

Blocks of rows are widened to float32 in a buffer that stays in a core's cache; all inner products of a block are one
batched matrix product. `fused` does the same for large stacks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.tensors.pieces import Piece, Run, Side, Total, hashes, over

CACHE = 1_400_000  # bytes of float32 in one block: with what is read it stays in 2 MiB, a core's own cache today
PIECE = 512  # tokens whose inner products are gathered before anything is made of them


def sums(run: Run, part: slice) -> tuple[list[Tensor], int]:
    """Sums [K, H] and [L, H] of a stretch's rows that are finite in all features of both, and how many there are."""
    total, counted = torch.zeros(run.k + run.l, run.hidden, dtype=torch.float64), 0
    step = block(run)
    for start in range(part.start, part.stop, step):
        place = slice(start, min(start + step, part.stop))
        added, count = sound_sums(run, place)
        total += added
        counted += count
    return list(total.split([run.k, run.l])), counted  # type: ignore[no-untyped-call]


def sound_sums(run: Run, place: slice) -> tuple[Tensor, int]:
    """Sum [K + L, H] of some rows that count and are finite in all features of both sides, and their number."""
    rows = torch.cat([side.rows.read(place).float() for side in (run.a, run.b)], dim=1)
    sound = torch.isfinite(rows).flatten(1).all(dim=1) & run.keep[place]
    return rows[sound].sum(dim=0, dtype=torch.float64), int(sound.sum())


def stretch(run: Run, part: slice) -> Total:
    """Everything about the tokens of a stretch; rows around it are read for the shifts, and belong to others."""
    total, step = run.total(), block(run)
    buffers = torch.empty(step, run.k, run.hidden), torch.empty(step + 2 * run.edge, run.l, run.hidden)
    for start in range(part.start, part.stop, PIECE):
        piece = Blocks(run, start, min(start + PIECE, part.stop))
        piece.read(*buffers)
        piece.add(total)
    return total


def block(run: Run) -> int:
    """How many tokens are looked at in one piece."""
    return max(1, CACHE // (4 * (run.k + run.l) * run.hidden))


def load(side: Side, out: Tensor, start: int, stop: int) -> None:
    """Rows in float32, in a buffer that stays in the cache; zeros where there is no text."""
    first, last = max(start, 0), min(stop, side.rows.shape[0])
    if (first, last) != (start, stop):
        out.zero_()
    if last > first:
        out[first - start : last - start].copy_(side.rows.read(slice(first, last)))


class Products:
    """Lengths of a piece's rows, and inner products of each row of a with the rows of b around it."""

    def __init__(self, run: Run, count: int) -> None:
        self.run, self.window = run, 2 * run.edge + 1
        self.a, self.b = torch.empty(count, run.k), torch.empty(count + 2 * run.edge, run.l)
        self.dots = torch.empty(count, run.k, self.window * run.l)

    def take(self, x: Tensor, y: Tensor, at: int) -> None:
        """Those of a block x [n, K, H] at row ``at`` of the piece, with y [n + 2 edge, L, H]."""
        run, count = self.run, len(x)
        torch.linalg.vector_norm(x, dim=-1, out=self.a[at : at + count])
        torch.linalg.vector_norm(y, dim=-1, out=self.b[at : at + len(y)])
        around = y.as_strided((count, self.window * run.l, run.hidden), (run.l * run.hidden, run.hidden, 1))
        torch.bmm(x, around.transpose(1, 2), out=self.dots[at : at + count])

    def cosines(self, shift: int) -> Tensor:
        at, count = self.run.edge + shift, len(self.a)
        return over(self.dots[:, :, at * self.run.l : (at + 1) * self.run.l], self.a, self.b[at : at + count])


class Blocks(Piece):
    """A piece whose inner products are taken block by block."""

    def __init__(self, run: Run, start: int, stop: int) -> None:
        super().__init__(run, start, stop)
        self.raw = Products(run, stop - start)
        self.middle = Products(run, stop - start) if run.a.mean is not None else None
        self.norms_a, self.norms_b = self.raw.a, self.raw.b

    def read(self, mine: Tensor, theirs: Tensor) -> None:
        """Load the rows into the buffers, and take their products: as they are, then without their means."""
        run = self.run
        for at in range(self.start, self.stop, len(mine)):
            stop = min(at + len(mine), self.stop)
            x, y = mine[: stop - at], theirs[: stop - at + 2 * run.edge]
            load(run.a, x, at, stop)
            load(run.b, y, at - run.edge, stop + run.edge)
            self.raw.take(x, y, at - self.start)
            if self.middle is not None and run.a.mean is not None and run.b.mean is not None:
                self.middle.take(x.sub_(run.a.mean), y.sub_(run.b.mean), at - self.start)
            for side in (run.a, run.b):
                if side.hashes is not None:
                    side.hashes[at:stop] = hashes(side.rows.read(slice(at, stop)))

    def cosines(self, shift: int) -> tuple[Tensor, Tensor | None]:
        """Cosines [n, K, L] of a's features with b's, so many rows on; and centred ones."""
        return self.raw.cosines(shift), None if self.middle is None else self.middle.cosines(shift)
