"""Sampling verify: the accepted tokens are distributed as if the target had sampled them one by one."""

from __future__ import annotations

import torch
from torch import Tensor

from .walk import children


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Called by speculative/eagle_info.py:361. One coin per node decides among its children: child i is taken where the
    coin lies within its share of the target's probability. Where none is, the last token is sampled from what the
    children leave over.

    Args:
        predicts, accept_index, accept_token_num: written, as in ``verify_tree_greedy``.
        candidates, retrive_index, retrive_next_token, retrive_next_sibling: [batch, nodes], from the tree.
        uniform_samples: [batch, nodes], coins in [0, 1).
        uniform_samples_for_final_sampling: [batch].
        target_probs: [batch, nodes, vocabulary].
        draft_probs: unused and left alone; SGLang passes zeros as a scratch pad (eagle_info.py:349).
        threshold_single: a child at least this probable is accepted in any case.
        threshold_acc: shares are divided by it, so below 1 more is accepted than the target would sample.
    """
    del draft_probs, deterministic
    tokens, rows, coins = candidates.tolist(), retrive_index.tolist(), uniform_samples.tolist()
    next_token, next_sibling = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    threshold_acc = max(threshold_acc, 1e-9)
    for request in range(len(tokens)):
        path, sampled, rejected = [0], [], list[int]()
        while len(path) < accept_index.shape[1]:
            probabilities, share, accepted, rejected = target_probs[request, path[-1]], 0.0, None, list[int]()
            for node in children(path[-1], next_token[request], next_sibling[request]):
                probability = float(probabilities[tokens[request][node]])
                share += probability
                if coins[request][path[-1]] <= share / threshold_acc or probability >= threshold_single:
                    accepted = node
                    break
                rejected.append(tokens[request][node])
            if accepted is None:
                break
            path.append(accepted)
            sampled.append(tokens[request][accepted])
            rejected = []
        left = target_probs[request, path[-1]].index_fill(0, torch.tensor(rejected, dtype=torch.long), 0.0)
        if not left.any():  # the children had all of it, and the coin fell into the rounding of their sum
            left = target_probs[request, path[-1]]
        sampled.append(_sample(left, float(uniform_samples_for_final_sampling[request])))
        for place, (node, token) in enumerate(zip(path, sampled, strict=True)):
            accept_index[request, place] = rows[request][node]
            predicts[rows[request][node]] = token
        accept_token_num[request] = len(path) - 1


def _sample(weights: Tensor, coin: float) -> int:
    """A token in proportion to its weight, by inverting the cumulative sum. A token of weight 0 is never taken."""
    sums = weights.cumsum(0)
    place = int(torch.searchsorted(sums, coin * sums[-1], right=True))
    last = int(weights.nonzero()[-1])  # rounding may put the coin on the very end of the sum
    return min(place, last)
