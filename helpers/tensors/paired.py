"""Two stacks of the same tokens held against each other in one stream: what `make bench` measures against a copy.

Rows are read block by block, each block is small enough to stay in a core's cache as float32, and everything is
taken from it there: all inner products of a token's features are one small matrix product, and norms, cosines and the
K x K matrix follow from them. So the data passes through memory once; the means, where centred cosines are asked for,
cost a pass of their own before. Each thread has its own stretch of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from helpers.tensors import streaming
from helpers.tensors.dumps import Sample
from helpers.tensors.pieces import Rows, Run, Total

SMALL = 1 << 22  # values that are not worth a second thread
LARGE = 1 << 26  # values from which on compiled code is taken: it costs half a second to load, the first time three


@dataclass(frozen=True)
class Paired:
    """What two stacks a [T, K, H] and b [T, L, H] have in common. Everything is computed in float32, sums in float64.

    Norms and ``cosine`` are per token; the latter of slots in the same place, min(K, L) of them. The K x L matrices are
    means over the ``tokens`` that count (``keep``): those with a partner at every shift; token 0 is not among them, nor
    padding, nor rows that are zero or not finite. ``centred`` is None where it was not asked for.
    """

    shifts: tuple[int, ...]
    tokens: int
    norms_a: Float[Tensor, "T K"]
    norms_b: Float[Tensor, "T L"]
    cosine: Float[Tensor, "T M"]
    centred_cosine: Float[Tensor, "T M"] | None
    matrix: Float[Tensor, "S K L"]
    centred: Float[Tensor, "S K L"] | None
    keep: Bool[Tensor, " T"]
    hashes_a: Int64[Tensor, "T K"] | None = None
    hashes_b: Int64[Tensor, "T L"] | None = None

    @property
    def non_finite(self) -> tuple[Tensor, Tensor]:
        """How many rows hold NaN or infinity, per slot of a and of b."""
        return (~self.norms_a.isfinite()).sum(dim=0), (~self.norms_b.isfinite()).sum(dim=0)

    @property
    def zero(self) -> tuple[Tensor, Tensor]:
        """How many rows are all zero, per slot of a and of b."""
        return (self.norms_a == 0).sum(dim=0), (self.norms_b == 0).sum(dim=0)

    @property
    def repeated(self) -> tuple[Tensor, Tensor]:
        """How many rows are bit for bit those of an earlier token, per slot of a and of b. Needs ``counts``."""
        if self.hashes_a is None or self.hashes_b is None:
            raise ValueError("rows were not hashed: ask for counts=True")
        counted = [torch.tensor([len(h) - len(h.unique()) for h in side.T]) for side in (self.hashes_a, self.hashes_b)]
        return counted[0], counted[1]

    def norm_quantiles(self, at: Sequence[float] = (0.05, 0.5, 0.95)) -> tuple[Tensor, Tensor]:
        """How the norms of the tokens that count are spread, per slot of a [Q, K] and of b [Q, L]."""
        levels = torch.tensor(at)
        one, two = (torch.nanquantile(norms[self.keep], levels, dim=0) for norms in (self.norms_a, self.norms_b))
        return one, two

    @property
    def norm_spread(self) -> Float[Tensor, " M"]:
        """Median over tokens of the relative difference of the two norms, per slot."""
        common = self.cosine.shape[1]
        one, two = self.norms_a[self.keep, :common], self.norms_b[self.keep, :common]
        spread: Tensor = ((one - two).abs() / two.clamp(min=1e-12)).nanmedian(dim=0).values
        return spread


def compare_rows(
    a: Rows | Tensor | Sample,
    b: Rows | Tensor | Sample,
    *,
    shifts: Sequence[int] = (0,),
    centred: bool = False,
    counts: bool = False,
    left_out: int = 1,
    padding: Bool[Tensor, " T"] | None = None,
) -> Paired:
    """Norms, cosines and the K x L matrix of two stacks on the same consecutive tokens, at each shift.

    Args:
        a: [T, K, H].
        b: [T, L, H], of the same tokens.
        shifts: a's row t is held against b's row t + s.
        centred: the same with each feature's mean taken off, in a second pass (the first finds the means).
        counts: hash each row, so that repeated ones can be counted.
        left_out: first tokens that are in no mean (1: token 0, a sink of its own kind).
        padding: which tokens are padding: in no mean either.

    >>> x = torch.randn(6, 2, 16)
    >>> compare_rows(x, x).matrix.shape
    torch.Size([1, 2, 2])

    Raises:
        ValueError: where the two have other tokens or another width, or too few tokens for the shifts.
    """
    one, two = (x if isinstance(x, Rows) else Rows.of(x) for x in (a, b))
    tokens, hidden = one.shape[0], one.shape[2]
    if two.shape[0] != tokens or two.shape[2] != hidden:
        raise ValueError(f"{list(one.shape)} and {list(two.shape)} are not of the same tokens and width")
    edge = max(abs(s) for s in shifts)
    if tokens - left_out - 2 * edge < 1:
        raise ValueError(f"{tokens} tokens are too few for shifts of {edge}, with {left_out} left out")
    keep = torch.ones(tokens, dtype=torch.bool) if padding is None else ~padding
    keep[:left_out] = False
    run = Run(one, two, tuple(shifts), counts, keep, torch.get_num_threads())
    how = way(run)
    with one_thread_an_operation(run.values) as threads, ThreadPoolExecutor(threads) as pool:
        cuts = [tokens * i // threads for i in range(threads + 1)]
        parts = [slice(cuts[i], cuts[i + 1]) for i in range(threads)]
        if centred:
            run.find_means(list(pool.map(partial(how.sums, run), parts)))
        totals = list(pool.map(partial(how.stretch, run), parts))
    return result(run, totals, centred)


def way(run: Run) -> Way:
    """Compiled code where the stacks are large, torch where it would not be worth its loading."""
    if run.values < LARGE:
        return Way(streaming.sums, streaming.stretch)
    from helpers.tensors import fused  # here, since it loads numba

    fused.ready(run)
    return Way(fused.sums, fused.stretch)


@dataclass(frozen=True)
class Way:
    """How a stretch of tokens is worked through: for the means, then for everything."""

    sums: Callable[[Run, slice], tuple[list[Tensor], int]]
    stretch: Callable[[Run, slice], Total]


@contextmanager
def one_thread_an_operation(values: int) -> Iterator[int]:
    """How many threads to take, each with a stretch of its own; torch's operations then run on the thread that asks.

    Operations on blocks that fit a cache take microseconds: torch's own threads would mostly wait for each other.
    """
    before = torch.get_num_threads()
    threads = 1 if values < SMALL else before
    if threads == 1:
        yield 1
        return
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)


def result(run: Run, totals: list[Total], centred: bool) -> Paired:
    count = sum(total.tokens for total in totals)
    matrix, middle = (torch.stack([getattr(t, n) for t in totals]).sum(0) for n in ("matrix", "centred"))
    return Paired(
        run.shifts,
        count,
        run.a.norms,
        run.b.norms,
        run.cosine,
        run.centred if centred else None,
        (matrix / max(1, count)).float(),
        (middle / max(1, count)).float() if centred else None,
        run.keep,
        run.a.hashes,
        run.b.hashes,
    )
