"""From the draft's best tokens to the tree that the target verifies."""

from __future__ import annotations

import torch
from torch import Tensor

FULL_MASK, QLEN_ONLY = 0, 1


def build_tree_kernel_efficient(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Called by speculative/eagle_utils.py:137. Node 0 of each tree is the last verified token.

    The drafter numbers its candidates in the order in which it scored them: the topk of step 1, then topk children
    for each of the topk tokens that step 1 went on with, and so on. ``selected_index`` are the numbers of the
    ``draft_token_num - 1`` candidates that were kept, ascending.

    Args:
        parent_list: [batch, 1 + topk * (steps - 1)], entry g: the number of the candidate whose children are
            candidates ``g * topk`` to ``g * topk + topk - 1``. Entry 0 is the root.
        selected_index: [batch, draft_token_num - 1].
        verified_seq_len: [batch], lengths without draft tokens.
        tree_mask: flat bool, for each request [draft_token_num, length + draft_token_num] (FULL_MASK) or
            [draft_token_num, draft_token_num] (QLEN_ONLY); comes in all True. Written: which draft tokens each sees.
        positions: [batch * draft_token_num], written: length + depth in the tree.
        retrive_index: [batch, draft_token_num], written: row of each node in the flattened batch.
        retrive_next_token: written: first child of each node, or -1.
        retrive_next_sibling: written: next child of the same parent, or -1.

    Raises:
        ValueError: the bit-packed mask, which no CPU backend asks for.
    """
    if tree_mask_mode not in (FULL_MASK, QLEN_ONLY):
        raise ValueError(f"tree mask mode {tree_mask_mode}: the CPU engine knows {FULL_MASK} and {QLEN_ONLY}")
    nodes = draft_token_num
    groups, numbers, lengths = parent_list.long().tolist(), selected_index.tolist(), verified_seq_len.tolist()
    offset = 0
    depths, children, siblings = [], [], []
    for request, length in enumerate(lengths):
        parents = _parents(groups[request], numbers[request], topk)
        paths = _paths(parents)
        width = (length if tree_mask_mode == FULL_MASK else 0) + nodes
        block = tree_mask[offset : offset + nodes * width].view(nodes, width)
        block[:, width - nodes :] = torch.tensor([[node in path for node in range(nodes)] for path in paths])
        offset += nodes * width
        depths.append([length + len(path) - 1 for path in paths])
        first, following = _links(parents)
        children.append(first)
        siblings.append(following)
    positions.copy_(torch.tensor(depths).flatten())
    retrive_index.copy_(torch.arange(len(lengths) * nodes).view(len(lengths), nodes))
    retrive_next_token.copy_(torch.tensor(children))
    retrive_next_sibling.copy_(torch.tensor(siblings))


def _parents(groups: list[int], numbers: list[int], topk: int) -> list[int]:
    """The parent of each node, -1 for the root. A kept candidate's parent is always kept: its score is no lower."""
    node_of = {number: node for node, number in enumerate(numbers, start=1)}
    return [-1, *(0 if number < topk else node_of[groups[number // topk]] for number in numbers)]


def _paths(parents: list[int]) -> list[set[int]]:
    """The nodes from the root to each node, both included. Parents come before their children."""
    paths = [{0}]
    for node, parent in enumerate(parents[1:], start=1):
        paths.append(paths[parent] | {node})
    return paths


def _links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node, in node order."""
    first, following = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        following[node] = first[parents[node]]
        first[parents[node]] = node
    return first, following
