"""Greedy verify: a draft token is accepted where it is the target's own choice."""

from __future__ import annotations

from torch import Tensor

from .walk import children


def verify_tree_greedy(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Called by speculative/eagle_utils.py:175, for eagle_info.py:313.

    Args:
        predicts: flat, written at the rows of accepted nodes: the target's choice after each of them.
        accept_index: [batch, steps + 1], comes in -1; written: the rows of the accepted nodes, the root first.
        accept_token_num: [batch], written: how many draft tokens were accepted.
        candidates: [batch, nodes], the tokens of the tree.
        retrive_index, retrive_next_token, retrive_next_sibling: [batch, nodes], from the tree.
        target_predict: [batch, nodes], the target's choice after each node.
    """
    tokens, choices, rows = candidates.tolist(), target_predict.tolist(), retrive_index.tolist()
    next_token, next_sibling = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    for request in range(len(tokens)):
        path = [0]
        while len(path) < accept_index.shape[1]:
            wanted = choices[request][path[-1]]
            links = next_token[request], next_sibling[request]
            accepted = next((node for node in children(path[-1], *links) if tokens[request][node] == wanted), None)
            if accepted is None:
                break
            path.append(accepted)
        for place, node in enumerate(path):
            accept_index[request, place] = rows[request][node]
            predicts[rows[request][node]] = choices[request][node]
        accept_token_num[request] = len(path) - 1
