"""Rotary position embedding: angles that grow with the position, so that attention sees distances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

KINDS = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Rope:
    """How a position becomes angles.

    Attributes:
        theta: the base; pair i of a head turns by position / theta ** (2 i / dim).
        dim: how many of a head's values are turned; the others stay.
        kind: one of `KINDS`; all but ``default`` stretch the angles for long texts.
        parameters: the numbers of config.json's ``rope_scaling``.
        neox: pairs are (i, i + dim / 2); else neighbours.
        original_positions: the length that the angles were made for, before stretching.
    """

    theta: float
    dim: int
    kind: str = "default"
    parameters: tuple[tuple[str, float], ...] = ()
    neox: bool = True
    original_positions: int = 8192

    def _get(self, name: str, default: float) -> float:
        return dict(self.parameters).get(name, default)

    def frequencies(self) -> Float[Tensor, " pairs"]:
        """Radians per position of each pair."""
        plain = 1.0 / (self.theta ** (torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim))
        factor = self._get("factor", 1.0)
        if self.kind == "linear":
            return plain / factor
        if self.kind == "llama3":
            return self._llama3(plain, factor)
        return self._yarn(plain, factor) if self.kind == "yarn" else plain

    def magnitude(self) -> float:
        """What cosine and sine are multiplied by (yarn makes up for flatter attention)."""
        factor = self._get("factor", 1.0)
        if self.kind != "yarn" or factor <= 1:
            return 1.0
        return (0.1 * math.log(factor) + 1.0) * self._get("attn_factor", 1.0)

    def _llama3(self, plain: Tensor, factor: float) -> Tensor:
        """Slow pairs are stretched, fast ones are not, and those between are mixed."""
        low, high = self._get("low_freq_factor", 1.0), self._get("high_freq_factor", 4.0)
        turns = self.original_positions * plain / (2 * math.pi)  # full turns within the original length
        share = ((turns - low) / (high - low)).clamp(0, 1) if high != low else (turns >= high).float()
        return share * plain + (1 - share) * plain / factor

    def _yarn(self, plain: Tensor, factor: float) -> Tensor:
        """As llama3, but the mix is linear in the number of the pair."""

        def pair(turns: float) -> float:
            return self.dim * math.log(self.original_positions / (turns * 2 * math.pi)) / (2 * math.log(self.theta))

        low = max(math.floor(pair(self._get("beta_fast", 32.0))), 0)
        high = min(math.ceil(pair(self._get("beta_slow", 1.0))), self.dim - 1)
        ramp = ((torch.arange(self.dim // 2) - low) / max(high - low, 0.001)).clamp(0, 1)
        share = (1 - ramp) * self._get("extrapolation_factor", 1.0)
        return share * plain + (1 - share) * plain / factor

    def turn(self, x: Float[Tensor, "*batch T heads head_dim"], positions: Int64[Tensor, " T"]) -> Tensor:
        """Turn queries or keys to their positions."""
        angles = positions[:, None].float() * self.frequencies().to(positions.device)
        cos = (angles.cos() * self.magnitude())[:, None].to(x.dtype)  # [T, 1, dim / 2]
        sin = (angles.sin() * self.magnitude())[:, None].to(x.dtype)
        turned, rest = x[..., : self.dim], x[..., self.dim :]
        if self.neox:
            a, b = turned.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
        a, b = turned[..., ::2], turned[..., 1::2]
        return torch.cat([torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2), rest], dim=-1)
