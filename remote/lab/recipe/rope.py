"""Angles of rotary positions, plain and stretched by yarn, as transformers works them out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from remote.lab.recipe.geometry import TargetShape


def yarn_table(shape: TargetShape) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, rope / 2], float32.

    Fast pairs keep their angle, slow ones are stretched by the factor, those between are mixed (transformers,
    modeling_rope_utils._compute_yarn_parameters). With mscale equal to mscale_all_dim the table itself is not scaled.
    """
    dim = shape.rope
    plain = 1.0 / shape.theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)

    def pair(turns: float) -> float:
        return dim * math.log(shape.original / (turns * 2 * math.pi)) / (2 * math.log(shape.theta))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / max(high - low, 0.001)).clamp(0, 1)
    angles = torch.arange(shape.positions)[:, None] * (plain * (1 - ramp) + plain / shape.factor * ramp)
    return angles.cos(), angles.sin()


def plain_table(width: int, theta: float, positions: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, width / 2], float32."""
    angles = torch.arange(positions)[:, None] / theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    return angles.cos(), angles.sin()


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs are (i, i + D / 2): llama's layout. x [..., T, heads, D]; cos, sin [T, D / 2] or [..., T, D / 2]."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
