"""The ladder put through fc once, slot by slot, so that any wiring's state is a sum of K parts.

fc of concatenated taps is the sum of each tap times its own columns. A norm before fc keeps that shape: its weights
belong to the columns, and its one factor per token follows from the lengths of the taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from helpers.wiring.drafter import Drafter
from helpers.wiring.replay.taps import Source, Tap, Text


@dataclass(frozen=True)
class Projection:
    """A batch of texts [B, T]: ``parts[slot][boundary]`` [B, T, H] and, for a norm before fc, ``squares[boundary]``."""

    drafter: Drafter
    parts: list[dict[int, Float[Tensor, "B T H"]]]
    squares: dict[int, Float[Tensor, "B T"]]

    def state(self, taps: Sequence[int]) -> Float[Tensor, "B T H"]:
        """What `Drafter.fuse` gives for these boundaries, but for the order of sums."""
        total = torch.stack([self.parts[slot][boundary] for slot, boundary in enumerate(taps)]).sum(dim=0)
        drafter = self.drafter
        if drafter.input_norm is not None:
            mean = torch.stack([self.squares[b] for b in taps]).sum(dim=0) / len(drafter.input_norm)
            total = total * torch.rsqrt(mean + drafter.config.rms_eps)[..., None].to(total.dtype)
        return total if drafter.fc_bias is None else total + drafter.fc_bias


def project(drafter: Drafter, source: Source, texts: Sequence[Text], length: int) -> Projection:
    """Project the whole ladder of some texts, cut to `length` rows."""
    parts: list[dict[int, Tensor]] = [{} for _ in range(drafter.slots)]
    squares: dict[int, Tensor] = {}
    width = drafter.config.target_hidden_size
    for boundary in source.rank.boundaries:
        tap = Tap("boundary", boundary)
        x = pad_sequence([source.slot(tap, text.rows[:length]) for text in texts], batch_first=True).to(drafter.dtype)
        squares[boundary] = x.float().square().sum(dim=-1)
        for slot in range(drafter.slots):
            entering = x
            if drafter.slot_norms is not None:
                entering = drafter.rms(x, drafter.slot_norms[slot])
            if drafter.input_norm is not None:
                entering = x * drafter.input_norm[slot * width : (slot + 1) * width]
            parts[slot][boundary] = entering @ drafter.block(slot).T
    return Projection(drafter, parts, squares)
