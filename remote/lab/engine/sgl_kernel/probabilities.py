"""Top-k and top-p filters on distributions, for verify at a temperature above 0."""

from __future__ import annotations

import torch
from torch import Tensor


def top_k_renorm_prob(probs: Tensor, top_ks: Tensor) -> Tensor:
    """Called by speculative/eagle_info.py:334. Keeps the k most probable tokens of each row, and those level with the
    kth.

    Args:
        probs: [rows, vocabulary].
        top_ks: [rows]; SGLang says "all" with a k above the vocabulary (sampling/sampling_params.py:26).

    Returns:
        [rows, vocabulary], each row sums to 1.
    """
    if int(top_ks.min()) >= probs.shape[-1]:
        return probs
    ordered = probs.sort(dim=-1, descending=True).values
    kth = ordered.gather(1, top_ks.long().clamp(1, probs.shape[-1]).view(-1, 1) - 1)
    return _normalised(probs.where(probs >= kth, 0.0))


def top_p_renorm_prob(probs: Tensor, top_ps: Tensor) -> Tensor:
    """Called by speculative/eagle_info.py:341. Keeps the most probable tokens until their sum reaches p.

    Args:
        probs: [rows, vocabulary].
        top_ps: [rows], in (0, 1].

    Returns:
        [rows, vocabulary], each row sums to 1.
    """
    ordered, order = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.where(before < top_ps.view(-1, 1), 0.0)
    return _normalised(torch.zeros_like(probs).scatter_(1, order, kept))


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
