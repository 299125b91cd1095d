"""The target's own distribution after each token, which a drafter's first step is held against.

Row j of a text makes the drafter guess token j + 2; the target's word on it is its last state at token j + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.wiring.drafter.target import Target
from helpers.wiring.replay.taps import Source, Tap, Text

# Rows whose logits over the target's whole vocabulary are held at a time.
ROWS = 1024
# What a judge keeps of its answers: several wirings are held against the same words.
KEPT_BYTES = 1 << 30
# Row 0 is a sink of its own kind in every model.
FIRST = 1


@dataclass(frozen=True)
class Judge:
    """Gives the target's probabilities of the drafter's tokens. ``to_target`` [D] are their ids."""

    source: Source
    target: Target
    to_target: Int64[Tensor, " D"]
    _kept: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    @property
    def able(self) -> bool:
        """Whether the capture holds the target's last state, before or after its final norm."""
        return "normed" in self.source.rank.entries or self._last in self.source.rank.boundaries

    @property
    def _last(self) -> int:
        return self.source.capture.info.model.num_layers

    def wanted(self, text: Text, length: int) -> Float[Tensor, "N D"]:
        """Probabilities after tokens FIRST + 1 to length - 1 of a text: what rows FIRST to length - 2 should say.

        They do not add up to one: what the target wants outside the drafter's vocabulary is left out.
        """
        key = (text.start, length)
        if key in self._kept:
            return self._kept[key]
        rows = text.rows[FIRST + 1 : length]
        parts = [self._probabilities(piece) for piece in torch.split(rows, ROWS)]
        wanted = torch.cat(parts)
        if sum(kept.nbytes for kept in self._kept.values()) + wanted.nbytes <= KEPT_BYTES:
            self._kept[key] = wanted
        return wanted

    def _probabilities(self, rows: Int64[Tensor, " N"]) -> Float[Tensor, "N D"]:
        if "normed" in self.source.rank.entries:
            state = self.source.rank.rows("normed", rows)
        else:
            state = self.target.final_norm(self.source.slot(Tap("boundary", self._last), rows))
        return self.target.logits(state).softmax(dim=-1)[:, self.to_target]


def cross_entropy(wanted: Float[Tensor, "N D"], logits: Float[Tensor, "N D"]) -> float:
    """Sum over rows, in nats."""
    return float(-(wanted * logits.float().log_softmax(dim=-1)).sum(dtype=torch.float64))
