"""How far two ranks' copies of a tensor are apart, row by row.

`remote/sketches.py` does the same beside the tensors. Over all rows together a sink token, hundreds of times longer
than any other, would hide what the others differ by; and so would thousands of rows of prompts hide ten of answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

# Replicas that were reduced in another order differ in their last bits; terms that were not reduced differ by far more.
PARTIAL = 0.01
# The share of rows that are further apart from which on a tensor is called not reduced. Below it may as well be that a
# last bit made one rank choose another expert for a token.
NOTABLE = 0.05


@dataclass(frozen=True)
class Apart:
    """Rows of a tensor against those of rank 0, the first of each text left out.

    Attributes:
        largest, median: differences of a row, in lengths of the longer of the two. 0: every bit is equal.
        rows: how many are more than `PARTIAL` apart. of: how many were looked at.
    """

    largest: float
    median: float
    rows: int
    of: int

    @property
    def partial(self) -> bool:
        """So many rows, or so large a difference in most, that the terms cannot have been reduced."""
        return self.median > PARTIAL or self.rows > NOTABLE * self.of

    def worse(self, other: Apart) -> Apart:
        """The one of two that is further apart."""
        return max(self, other, key=lambda one: (one.partial, one.rows, one.largest))


EQUAL = Apart(0.0, 0.0, 0, 0)


def other_shape(rows: int) -> Apart:
    """Of copies that are not of one shape."""
    return Apart(float("inf"), float("inf"), max(rows, 1), max(rows, 1))


def by_row(a: Float[Tensor, "N W"], b: Float[Tensor, "N W"], hidden: int) -> Float[Tensor, " N"]:
    """The relative difference of each row; of several taps side by side that of the tap that differs most."""
    width = hidden if a.shape[1] % hidden == 0 else a.shape[1]
    x, y = (one.double().nan_to_num(0, 0, 0).view(len(one), -1, width) for one in (a, b))
    long_x, long_y, apart = (torch.linalg.vector_norm(one, dim=2) for one in (x, y, x - y))
    found: Tensor = (apart / torch.maximum(long_x, long_y).clamp(min=1e-300)).amax(dim=1)
    return found


def summed_up(apart: Float[Tensor, " N"], positions: Int64[Tensor, " N"] | None) -> Apart:
    """What the rows' differences come to; without positions every row counts."""
    if not bool(apart.any()):
        return EQUAL
    seen = apart if positions is None else apart[positions > 0]
    largest, median = (float(seen.max()), float(seen.median())) if len(seen) else (0.0, 0.0)
    return Apart(max(largest, 1e-12), median, int((seen > PARTIAL).sum()), len(seen))
