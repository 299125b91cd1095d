"""The attention itself."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .plan import Group


def attend(query: Tensor, keys: Tensor, values: Tensor, groups: list[Group], scale: float) -> Tensor:
    """Softmax attention of each query over the cache rows that its group names.

    Args:
        query: [tokens, query heads, key width].
        keys: the layer's cache, [rows, key heads, key width].
        values: [rows, key heads, value width]; for MLA a view of the first columns of ``keys``.
        groups: from ``plan``; together they have the first tokens of ``query``, all but padding.
        scale: factor of the scores before the softmax.

    Returns:
        [tokens, query heads, value width], zero for padding.
    """
    out = query.new_zeros(*query.shape[:2], values.shape[2])
    for group in groups:
        part = slice(group.start, group.stop)
        out[part] = _attend_group(query[part], keys, values, group, scale)
    return out


def _attend_group(query: Tensor, keys: Tensor, values: Tensor, group: Group, scale: float) -> Tensor:
    """Query heads that share a key head are computed as further queries: keys are never repeated."""
    requests, queries, heads = group.requests, group.queries, keys.shape[1]
    shared = query.shape[1] // heads
    folded = query.view(requests, queries, heads, shared, -1).transpose(1, 2).flatten(2, 3)
    gathered = _gather(keys, group, query)
    # One gather serves both in MLA; torch's fast path wants keys and values of one width anyway.
    mixed = scaled_dot_product_attention(
        folded,
        gathered,
        gathered if values.data_ptr() == keys.data_ptr() else _gather(values, group, query),
        attn_mask=group.bias(shared, query.dtype),
        scale=scale,
    )
    unfolded = mixed[..., : values.shape[2]].view(requests, heads, queries, shared, -1).transpose(1, 2)
    return unfolded.reshape(requests * queries, heads * shared, -1)


def _gather(cache: Tensor, group: Group, query: Tensor) -> Tensor:
    """The group's rows, [requests, heads, keys, width], in the dtype of the queries."""
    rows = cache.index_select(0, group.rows.flatten()).to(query.dtype)
    return rows.view(*group.rows.shape, *cache.shape[1:]).transpose(1, 2)
