"""The stream behind `paired.compare_rows`: blocks of rows in a core's cache, and what is taken from them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.tensors.dumps import Sample
from helpers.tensors.health import row_hash

CACHE = 1_400_000  # bytes of float32 in one block: with what is read it stays in 2 MiB, a core's own cache today
PIECE = 512  # tokens whose inner products are gathered before anything is made of them


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

    def load(self, out: Tensor, start: int, stop: int) -> None:
        """Rows in float32, in a buffer that stays in the cache; zeros where there is no text."""
        first, last = max(start, 0), min(stop, self.rows.shape[0])
        if (first, last) != (start, stop):
            out.zero_()
        if last > first:
            out[first - start : last - start].copy_(self.rows.read(slice(first, last)))


class Run:
    """One comparison: where its results go, and what each thread does."""

    def __init__(self, a: Rows, b: Rows, shifts: tuple[int, ...], counts: bool, keep: Tensor) -> None:
        self.shifts, self.keep = shifts, keep
        self.edge = max(abs(s) for s in shifts)
        tokens, _, self.hidden = a.shape
        self.tokens = tokens
        self.a, self.b = (
            Side(x, torch.empty(x.shape[:2]), torch.empty(x.shape[:2], dtype=torch.int64) if counts else None)
            for x in (a, b)
        )
        self.k, self.l = a.shape[1], b.shape[1]
        self.cosine, self.centred = torch.empty(2, tokens, min(self.k, self.l)).unbind()
        self.step = max(1, CACHE // (4 * (self.k + self.l) * self.hidden))

    @property
    def values(self) -> int:
        return self.tokens * (self.k + self.l) * self.hidden

    def sums(self, part: slice) -> tuple[list[Tensor], int]:
        """Sums [K, H] and [L, H] of a stretch's rows that are finite in all features, and how many there are."""
        width = (self.k + self.l) * self.hidden
        buffer, weight = torch.empty(self.step, self.k + self.l, self.hidden), self.keep.float().unsqueeze(0)
        total, here, counted = torch.zeros(width, dtype=torch.float64), torch.zeros(1, width), 0
        for piece in range(part.start, part.stop, PIECE):
            last = min(piece + PIECE, part.stop)
            at, count = piece, int(self.keep[piece:last].sum())
            here.zero_()
            for x in self.both(buffer, piece, last):
                here.addmm_(weight[:, at : at + len(x)], x.flatten(1))
                at += len(x)
            if not torch.isfinite(here.sum()):
                at, count = piece, 0
                here.zero_()
                for x in self.both(buffer, piece, last):
                    sound = torch.isfinite(x).flatten(1).all(dim=1) & self.keep[at : at + len(x)]
                    here += x.flatten(1)[sound].sum(dim=0)
                    at, count = at + len(x), count + int(sound.sum())
            total += here[0]
            counted += count
        return list(total.view(-1, self.hidden).split([self.k, self.l])), counted  # type: ignore[no-untyped-call]

    def both(self, buffer: Tensor, first: int, last: int) -> Iterator[Tensor]:
        """Blocks of rows of both, side by side, in float32; in a buffer that stays in the cache."""
        mine, theirs = buffer[:, : self.k], buffer[:, self.k :]
        for at in range(first, last, self.step):
            count = min(self.step, last - at)
            mine[:count].copy_(self.a.rows.read(slice(at, at + count)))
            theirs[:count].copy_(self.b.rows.read(slice(at, at + count)))
            yield buffer[:count]

    def find_means(self, parts: list[tuple[list[Tensor], int]]) -> None:
        count = max(1, sum(counted for _, counted in parts))
        for number, side in enumerate((self.a, self.b)):
            side.mean = (torch.stack([totals[number] for totals, _ in parts]).sum(0) / count).float()

    def stretch(self, part: slice) -> Total:
        """Everything about the tokens of a stretch; rows around it are read for the shifts, and belong to others."""
        shape = (len(self.shifts), self.k, self.l)
        total = Total(torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64))
        buffers = (
            torch.empty(self.step, self.k, self.hidden),
            torch.empty(self.step + 2 * self.edge, self.l, self.hidden),
        )
        wide = torch.empty(self.step, self.k + self.l, self.hidden) if self.edge == 0 and self.a.mean is None else None
        for start in range(part.start, part.stop, PIECE):
            piece = Piece(self, start, min(start + PIECE, part.stop))
            if wide is not None:
                piece.read_once(wide)
            else:
                piece.read(*buffers)
            piece.add(total)
        return total


class Known:
    """What is taken from the rows of one side of a piece while they are in the cache."""

    def __init__(self, side: Side, other: Side, first: int, last: int) -> None:
        self.side, self.first, slots = side, first, side.rows.shape[1]
        self.lengths = torch.empty(last - first, slots)  # centred, where there is a mean
        self.means = None if side.mean is None or other.mean is None else torch.cat([side.mean, other.mean])
        width = 0 if self.means is None else len(self.means)
        self.along = torch.empty(width, (last - first) * slots)

    def load(self, x: Tensor, start: int, stop: int) -> None:
        side, slots = self.side, x.shape[1]
        side.load(x, start, stop)
        if self.means is not None and side.mean is not None:
            x -= side.mean
            place = slice((start - self.first) * slots, (stop - self.first) * slots)
            torch.mm(self.means, x.flatten(0, 1).T, out=self.along[:, place])
        torch.linalg.vector_norm(x, dim=-1, out=self.lengths[start - self.first : stop - self.first])

    def finish(self) -> None:
        """Norms of the rows as they are, out of those of the centred ones; those that cancel are taken again."""
        if self.means is None or self.side.mean is None:
            self.norms = self.lengths
            return
        slots = self.lengths.shape[1]
        self.per_row = self.along.view(len(self.means), -1, slots).permute(1, 2, 0)  # [rows, K, means]
        squares, own = self.side.mean.square().sum(dim=1), self.per_row[:, :, :slots].diagonal(dim1=1, dim2=2)
        total = self.lengths.square() + 2 * own + squares
        lost = (total < 1e-4 * squares).any(dim=1).nonzero().flatten().tolist()
        self.norms = total.clamp(min=0).sqrt()
        for row in lost:
            one = torch.zeros(1, slots, self.side.rows.shape[2])
            self.side.load(one, self.first + row, self.first + row + 1)
            self.norms[row] = torch.linalg.vector_norm(one[0], dim=-1)


class Piece:
    """Some hundred tokens: their inner products are taken block by block, what follows from those at once."""

    def __init__(self, run: Run, start: int, stop: int) -> None:
        self.run, self.start, self.stop = run, start, stop
        self.a, self.b = Known(run.a, run.b, start, stop), Known(run.b, run.a, start - run.edge, stop + run.edge)
        self.dots = torch.empty(stop - start, run.k, (2 * run.edge + 1) * run.l)

    def read(self, mine: Tensor, theirs: Tensor) -> None:
        """Load the rows into the buffers and take their products; b's last rows of a block stay for the next."""
        run, edge, hidden = self.run, self.run.edge, self.run.hidden
        window = (2 * edge + 1) * run.l
        if edge:
            self.b.load(theirs[: 2 * edge], self.start - edge, self.start + edge)
        for at in range(self.start, self.stop, run.step):
            stop = min(at + run.step, self.stop)
            count = stop - at
            x = mine[:count]
            self.a.load(x, at, stop)
            self.b.load(theirs[2 * edge : 2 * edge + count], at + edge, stop + edge)
            around = theirs.as_strided((count, window, hidden), (run.l * hidden, hidden, 1))
            torch.bmm(x, around.transpose(1, 2), out=self.dots[at - self.start : stop - self.start])
            for row in range(2 * edge):
                theirs[row].copy_(theirs[count + row])
            for side in (run.a, run.b):
                if side.hashes is not None:
                    side.hashes[at:stop] = hashes(side.rows.read(slice(at, stop)))
        self.a.finish()
        self.b.finish()

    def read_once(self, buffer: Tensor) -> None:
        """As `read` where neither shifts nor means are asked for: one product of all features with each other."""
        run = self.run
        gram = torch.empty(self.stop - self.start, run.k + run.l, run.k + run.l)
        at = 0
        for x in run.both(buffer, self.start, self.stop):
            torch.bmm(x, x.transpose(1, 2), out=gram[at : at + len(x)])
            for side in (run.a, run.b):
                if side.hashes is not None:
                    place = slice(self.start + at, self.start + at + len(x))
                    side.hashes[place] = hashes(side.rows.read(place))
            at += len(x)
        lengths = gram.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
        self.a.norms, self.b.norms = lengths[:, : run.k], lengths[:, run.k :]
        self.dots = gram[:, : run.k, run.k :]

    def add(self, total: Total) -> None:
        """Write what is per token, and add up what is a mean."""
        run, edge, count = self.run, self.run.edge, self.stop - self.start
        run.a.norms[self.start : self.stop] = self.a.norms
        run.b.norms[self.start : self.stop] = self.b.norms[edge : edge + count]
        raw, middle = self.cosines(0)
        run.cosine[self.start : self.stop] = raw.diagonal(dim1=1, dim2=2)
        if middle is not None:
            run.centred[self.start : self.stop] = middle.diagonal(dim1=1, dim2=2)
        use = sound(self.a.norms) & run.keep[self.start : self.stop]
        place = torch.arange(self.start - edge, self.stop + edge)
        text = (place >= 0) & (place < run.tokens)
        good = sound(self.b.norms) & text & run.keep[place.clamp(0, run.tokens - 1)]
        for shift in (0, *run.shifts):
            use &= good[edge + shift : edge + shift + count]
        for step in (-edge, edge):  # so that all shifts are of the same tokens
            use &= text[edge + step : edge + step + count]
        total.tokens += int(use.sum())
        for number, shift in enumerate(run.shifts):
            raw, middle = self.cosines(shift)
            total.matrix[number] += raw[use].sum(dim=0, dtype=torch.float64)
            if middle is not None:
                total.centred[number] += middle[use].sum(dim=0, dtype=torch.float64)

    def cosines(self, shift: int) -> tuple[Tensor, Tensor | None]:
        """Cosines [n, K, L] of a's features with b's, so many rows on; and centred ones."""
        run, count, at = self.run, self.stop - self.start, self.run.edge + shift
        dots, there = self.dots[:, :, at * run.l : (at + 1) * run.l], slice(at, at + count)
        middle = None
        if run.a.mean is not None and run.b.mean is not None:
            middle = over(dots, self.a.lengths, self.b.lengths[there])
            dots = dots + self.a.per_row[:, :, run.k :] + self.b.per_row[there, :, run.l :].transpose(1, 2)
            dots = dots + run.a.mean @ run.b.mean.T
        return over(dots, self.a.norms, self.b.norms[there]), middle


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
