"""Draft steps from every position of a text at once.

Row j of a text holds token j + 1 and the taps of token j: that is how the drafter is fed. Its first step, seen from
row j, guesses token j + 2. Each later step takes the token guessed and the drafter's own state in place of taps, and
attends to rows 0 to j (which hold true taps) and to the guesses of its own chain, never to another chain's. So
one pass over a text gives what a server would draft from each of its positions, whichever rounds it then makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.wiring.drafter.model import Drafter

# SGLang sets positions to the number of verified tokens and adds one before the first step on own state
# (eagle_worker.py, _draft_preprocess_decode and draft_forward): that step stands one further than the row that it
# continues, and so do those after it.
POSITION_GAP = 1
# Rows whose attention is worked out at a time: scores are [B, heads, ROWS, T].
ROWS = 512


@dataclass(frozen=True)
class Step:
    """One draft step from every row. ``tokens`` [B, T] are the guesses, as ids of the target; ``logits`` [B, T, D]."""

    tokens: Int64[Tensor, "B T"]
    logits: Float[Tensor, "B T D"]
    state: Float[Tensor, "B T H"]


@torch.no_grad()
def chain(
    drafter: Drafter, next_tokens: Int64[Tensor, "B T"], state: Float[Tensor, "B T H"], steps: int = 3
) -> Iterator[Step]:
    """Draft `steps` tokens, greedily, from every row.

    Args:
        next_tokens: token j + 1 in row j. Texts of a batch may be padded at their ends: no row looks ahead.
        state: the fused taps of token j (`Drafter.fuse`).

    Yields:
        One `Step` for each draft step, in order.
    """
    rows = torch.arange(next_tokens.shape[1], device=next_tokens.device)
    tokens, kept = next_tokens, []
    for number in range(steps):
        positions = rows if number == 0 else rows + number + POSITION_GAP
        q, k, v, residual = drafter.qkv(tokens, state, positions)
        kept.append((k, v))
        state, logits = drafter.finish(attend(q, kept), residual)
        tokens = drafter.to_target[logits.argmax(dim=-1)]
        yield Step(tokens, logits, state)


def attend(
    q: Float[Tensor, "B T heads D"], kept: list[tuple[Float[Tensor, "B T kv D"], Float[Tensor, "B T kv D"]]]
) -> Float[Tensor, "B T heads D"]:
    """Attention of the newest step: over the first step's rows up to one's own, then over one's own chain.

    Args:
        q: queries of the newest step.
        kept: keys and values of each step so far, the newest included.
    """
    shared = q.shape[2] // kept[0][0].shape[2]  # query heads to a key head
    (first_k, first_v), *own = [(spread(k, shared), spread(v, shared)) for k, v in kept]
    length = q.shape[1]
    rows = torch.arange(length, device=q.device)
    out = []
    for start in range(0, length, ROWS):
        part = slice(start, min(start + ROWS, length))
        seen = part.stop  # no row of this part looks further
        queries = q[:, part].transpose(1, 2) * q.shape[-1] ** -0.5  # [B, heads, rows, D]
        scores = queries @ first_k[:, :, :seen].transpose(-1, -2)
        scores = scores.masked_fill(rows[:seen] > rows[part, None], float("-inf"))
        own_scores = [(queries * k[:, :, part]).sum(dim=-1, keepdim=True) for k, _ in own]
        weights = torch.cat([scores, *own_scores], dim=-1).float().softmax(dim=-1).to(q.dtype)
        mixed = weights[..., :seen] @ first_v[:, :, :seen]
        for place, (_, v) in enumerate(own):
            mixed = mixed + weights[..., seen + place, None] * v[:, :, part]
        out.append(mixed.transpose(1, 2))
    return torch.cat(out, dim=1)


def spread(x: Float[Tensor, "B T kv D"], shared: int) -> Float[Tensor, "B heads T D"]:
    """Key heads repeated for the query heads that share them."""
    return x.repeat_interleave(shared, dim=2).transpose(1, 2)
