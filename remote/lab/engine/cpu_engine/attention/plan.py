"""Which cache rows the queries of a forward pass may see."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """Requests of one pass that have equally many queries, and are computed together.

    Attributes:
        start: the group's first row in the flattened queries of the pass.
        queries: queries per request.
        rows: int64 [requests, keys], the cache row of each key; padded with row 0, SGLang's own padding row.
        mask: bool [requests, queries, keys], what each query sees; None where that is every key.
    """

    start: int
    queries: int
    rows: Tensor
    mask: Tensor | None
    _biases: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def requests(self) -> int:
        """How many requests the group has."""
        return self.rows.shape[0]

    @property
    def stop(self) -> int:
        """One past the group's last row in the flattened queries."""
        return self.start + self.requests * self.queries

    def bias(self, shared: int, dtype: torch.dtype) -> Tensor | None:
        """The mask as what is added to scores, each query repeated ``shared`` times; made once for all layers.

        Returns:
            [requests, 1, queries * shared, keys], 0 where seen and minus infinity elsewhere; None where all is seen.
        """
        if self.mask is not None and shared not in self._biases:
            hidden = ~self.mask.repeat_interleave(shared, dim=1)[:, None]
            self._biases[shared] = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)
        return self._biases.get(shared)


def plan_decode(table: Tensor, lengths: Tensor) -> list[Group]:
    """One query per request, the last of its ``lengths`` tokens.

    Args:
        table: [requests, positions], the cache row of each position.
        lengths: [requests].
    """
    width = int(lengths.max())
    seen = torch.arange(width) < lengths[:, None]
    return [Group(0, 1, *_padded(table[:, :width], seen[:, None]))]


def plan_extend(table: Tensor, lengths: list[int], new: list[int]) -> list[Group]:
    """The last ``new`` of ``lengths`` tokens of each request are queries and see what is not after them.

    A group for each request: prompts differ in length, and padding them would cost more than it saves.
    """
    groups, start = [], 0
    for row, length, queries in zip(table, lengths, new, strict=True):
        seen = torch.ones(1, queries, length, dtype=torch.bool).tril(length - queries)
        groups.append(Group(start, queries, row[None, :length].long(), seen if queries > 1 else None))
        start += queries
    return groups


def plan_verify(table: Tensor, lengths: list[int], nodes: int, tree_mask: Tensor) -> list[Group]:
    """The nodes of each request's draft tree, behind its ``lengths`` verified tokens.

    Args:
        tree_mask: flat bool, for each request [nodes, length + nodes].
    """
    width = max(lengths) + nodes
    seen = torch.zeros(len(lengths), nodes, width, dtype=torch.bool)
    start = 0
    for request, length in enumerate(lengths):
        stop = start + nodes * (length + nodes)
        seen[request, :, : length + nodes] = tree_mask[start:stop].view(nodes, length + nodes)
        start = stop
    return [Group(0, nodes, *_padded(table[:, :width], seen))]


def plan_draft_step(table: Tensor, lengths: Tensor, step: int, steps: int, topk: int) -> list[Group]:
    """Draft step ``step`` (0 the first): each branch sees the verified tokens and its own tokens so far.

    The slots of branch b lie at positions ``length + b * steps`` and following (kernels/cache_slots.py); the queries
    come request by request, branch by branch.
    """
    width = int(lengths.max()) + topk * steps
    behind = torch.arange(width) - lengths[:, None, None]
    own = torch.arange(topk)[None, :, None] * steps
    seen = (behind < 0) | ((behind >= own) & (behind <= own + step))
    return [Group(0, topk, *_padded(table[:, :width], seen))]


def _padded(rows: Tensor, seen: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows that no query of a request sees become 0; a mask that hides nothing becomes None."""
    if bool(seen.all()):
        return rows.long(), None
    return rows.long() * seen.any(1), seen
