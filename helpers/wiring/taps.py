"""The taps that a slot can be held against: the capture's ladder, and boundary 0 out of the target's checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Int64
from torch import Tensor

from helpers.tensors.view import View
from helpers.wiring.checkpoint import Target


@dataclass(frozen=True)
class Taps:
    """The ladder of a view. Served slots are held against the ranks' own taps, trained ones against the true ones."""

    view: View
    target: Target | None = None

    @cached_property
    def ladder(self) -> list[int]:
        """The boundaries that can be read, ascending."""
        captured = self.view.boundaries
        return captured if self.target is None or 0 in captured else [0, *captured]

    @property
    def complete(self) -> bool:
        """Whether every boundary that a slot could be is here: only then "no tap" can be said."""
        return set(range(self.view.capture.info.model.num_layers + 1)) <= set(self.ladder)

    @cached_property
    def reduced(self) -> list[int]:
        """The boundaries whose true tap differs from what rank 0 holds, and can be put together."""
        return [boundary for boundary in self.view.boundaries if self.view.reducible(boundary)]

    def rows(self, boundary: int, index: Int64[Tensor, " N"]) -> Tensor:
        """Rows of a boundary, as the drafter could have been fed them."""
        if boundary == 0 and 0 not in self.view.boundaries and self.target is not None:
            return self.target.embedding(self.view.token_ids[index])
        return self.view.rows(f"boundary.{boundary:03d}", index)

    def true(self, boundary: int, index: Int64[Tensor, " N"]) -> Tensor:
        """Rows of a boundary, as training would have seen them."""
        return self.view.reduced(boundary, index) if boundary in self.reduced else self.rows(boundary, index)
