"""The attention itself."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .plan import Group


def attend(query: Tensor, keys: Tensor, values: Tensor, groups: list[Group], scale: float, out: Tensor) -> None:
    """Softmax attention of each query over the cache rows that its group names.

    Args:
        query: [tokens, query heads, key width].
        keys: the layer's cache, [rows, key heads, key width].
        values: [rows, key heads, value width].
        scale: factor of the scores before the softmax.
        out: [tokens, query heads, value width], written.
    """
    for group in groups:
        part = slice(group.start, group.stop)
        out[part] = _attend_group(query[part], keys[group.rows], values[group.rows], group, scale)


def _attend_group(query: Tensor, keys: Tensor, values: Tensor, group: Group, scale: float) -> Tensor:
    """Query heads that share a key head are computed as further queries: keys are never repeated."""
    requests, queries, heads = group.requests, group.queries, keys.shape[2]
    shared = query.shape[1] // heads
    folded = query.view(requests, queries, heads, shared, -1).permute(0, 2, 3, 1, 4)
    folded = folded.reshape(requests, heads, shared * queries, -1)
    mask = None if group.mask is None else group.mask[:, None].repeat(1, 1, shared, 1)
    mixed = scaled_dot_product_attention(
        folded,
        keys.transpose(1, 2).to(query.dtype),
        values.transpose(1, 2).to(query.dtype),
        attn_mask=mask,
        scale=scale,
    )
    unfolded = mixed.view(requests, heads, shared, queries, -1).permute(0, 3, 1, 2, 4)
    return unfolded.reshape(requests * queries, heads * shared, -1)
