"""Streaming statistics over stacks of features: norms, cosines, centred cosines, least-squares scales.

A *stack* is ``[T, S, H]``: S features (slots, taps) of the same T tokens. Sources are read as batches of stacks, in
float32 here whatever they are stored in, sums in float64. Centred means that each feature's mean over all tokens was
taken off first: transformers carry a large common vector, which makes raw cosines of unrelated tokens exceed .9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

Stack = Float[Tensor, "T S H"]
# Called once per pass over the data; every pass must bring the same batches.
Batches = Callable[[], Iterable[Stack]]


@dataclass(frozen=True)
class Comparison:
    """Every feature of a stack against every other, over `tokens` tokens.

    ``cosine`` and ``centred`` are means over tokens of the cosine between features of the same token; ``dot`` are sums
    of inner products. All are [S, S].
    """

    tokens: int
    cosine: Float[Tensor, "S S"]
    centred: Float[Tensor, "S S"]
    dot: Float[Tensor, "S S"]

    def scale(self, a: int, b: int) -> float:
        """The constant c that makes c * b the closest to a."""
        return float(self.dot[a, b] / self.dot[b, b])

    def relative_error(self, a: int, b: int) -> float:
        """Length of a - b, in lengths of b, over all tokens."""
        squared = self.dot[a, a] - 2 * self.dot[a, b] + self.dot[b, b]
        return float((squared.clamp(min=0) / self.dot[b, b]).sqrt())


def means(batches: Batches) -> tuple[Float[Tensor, "S H"], int]:
    """Mean over tokens of each feature, and the number of tokens."""
    total: Tensor | None = None
    count = 0
    for stack in batches():
        part = stack.double().sum(dim=0)
        total = part if total is None else total + part
        count += len(stack)
    if total is None or count == 0:
        raise ValueError("no tokens to take a mean of")
    return (total / count).float(), count


def compare(batches: Batches, *, mean: Float[Tensor, "S H"] | None = None) -> Comparison:
    """Compare all features of a stack with each other: in two passes over the data, or one where ``mean`` is given."""
    if mean is None:
        mean, _ = means(batches)
    size, count = len(mean), 0
    cosine, centred, dot = (torch.zeros(size, size, dtype=torch.float64) for _ in range(3))
    for stack in batches():
        x = stack.float()
        cosine += gram(unit(x))
        centred += gram(unit(x - mean))
        dot += gram(x)
        count += len(x)
    if count == 0:
        raise ValueError("no tokens to compare")
    return Comparison(count, cosine / count, centred / count, dot)


def unit(x: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch H"]:
    """Vectors of length one; a zero vector stays zero, so that it is like nothing."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp(min=1e-12)


def gram(x: Stack) -> Float[Tensor, "S S"]:
    """Inner products of the features, summed over tokens: one matrix product of [S, T * H]."""
    flat = x.transpose(0, 1).reshape(x.shape[1], -1)
    return (flat @ flat.T).double()


def norms(stack: Stack) -> Float[Tensor, "T S"]:
    """Length of each token's feature."""
    length: Tensor = torch.linalg.vector_norm(stack.float(), dim=-1)
    return length


def cosines(a: Stack, b: Stack) -> Float[Tensor, "T S"]:
    """Cosine, token by token, of features that stand in the same place of two stacks."""
    return (unit(a.float()) * unit(b.float())).sum(dim=-1)


def slot_matrix(a: Float[Tensor, "T A H"], b: Float[Tensor, "T B H"]) -> Float[Tensor, "A B"]:
    """Mean centred cosine of every feature of one stack with every feature of another, on the same tokens."""
    whole = torch.cat([a.float(), b.float()], dim=1)
    return compare(lambda: [whole]).centred[: a.shape[1], a.shape[1] :].float()


def non_finite(stack: Stack) -> Int64[Tensor, " S"]:
    """How many tokens have NaN or infinity, per feature."""
    return (~torch.isfinite(stack)).any(dim=-1).sum(dim=0)


SHIFTS = (-2, -1, 0, 1, 2)


def shifted(a: Stack, b: Stack, shifts: Sequence[int] = SHIFTS) -> Float[Tensor, "N S"]:
    """Mean centred cosine of a's row t with b's row t + s, for each shift s and each feature, on one stretch of text.

    Rows are consecutive tokens; the ends, where a shift leaves the text, are left out of all shifts alike.
    """
    edge = max(abs(s) for s in shifts)
    count = len(a) - 2 * edge
    if count < 1:
        raise ValueError(f"{len(a)} tokens are too few for shifts of {edge}")
    x = unit(centre(a[edge : edge + count].float()))
    return torch.stack([(x * unit(centre(b[edge + s : edge + s + count].float()))).sum(-1).mean(0) for s in shifts])


def centre(x: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch H"]:
    """Each feature without its mean over tokens, which are the first dimension."""
    return x - x.mean(dim=0)


def gram_error(a: Float[Tensor, "T H"], b: Float[Tensor, "T H"]) -> float:
    """How far two features' inner products between tokens are apart, in lengths of the second's; 0 for a rotation."""
    one, two = (centre(x.float()) @ centre(x.float()).T for x in (a, b))
    return float((one - two).norm() / two.norm().clamp(min=1e-30))


def norm_spread(a: Float[Tensor, "T H"], b: Float[Tensor, "T H"]) -> float:
    """Median over tokens of the relative difference of two features' lengths."""
    one, two = (torch.linalg.vector_norm(x.float(), dim=-1) for x in (a, b))
    return float(((one - two).abs() / two.clamp(min=1e-12)).median())


def agreed_factor(x: Float[Tensor, "T H"], t: Float[Tensor, "T H"], off: float) -> float:
    """The factor on t that most channels of x agree on; 1 where two thirds of them say none that is off by more.

    Args:
        off: a factor nearer to 1 than this is none.

    In a least-squares factor one outlier channel or massive token outweighs all others: here each token counts alike,
    and so does each channel. Noise on one side alone makes the factor of x on t differ from that of t on x, on either
    side of the true one: both have to say it.
    """
    length = torch.linalg.vector_norm(t, dim=1, keepdim=True).clamp(min=1e-30)
    y, u = (x / length).double(), (t / length).double()
    own, both = u.square().sum(dim=0), (y * u).sum(dim=0)
    alive = own > 0
    if not bool(alive.any()):
        return 1.0
    own, both, other = own[alive], both[alive], y.square().sum(dim=0)[alive]
    least = quantile(both / own, 1 / 3)
    most = quantile(torch.where(both > 0, other / both.clamp(min=1e-300), float("inf")), 2 / 3)
    return quantile((other / own).sqrt(), 0.5) if least > 1 + off or most < 1 - off else 1.0


def quantile(x: Float[Tensor, " N"], share: float) -> float:
    """The value that about this share of the others does not exceed; one of them, so that they may be infinite."""
    return float(x.sort().values[min(len(x) - 1, int(share * len(x)))])
