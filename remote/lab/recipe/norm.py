"""Root-mean-square norm without its weight, in as few passes over memory as can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Unit(torch.autograd.Function):
    """x / rms(x). torch takes its own rms_norm to pieces on a processor, and each piece reads and writes everything."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        rate = torch.rsqrt(length * length / x.shape[-1] + eps)
        out = torch.mul(x, rate).to(dtype)
        ctx.save_for_backward(x, rate)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, rate = ctx.saved_tensors
        along = torch.linalg.vecdot(grad.to(x.dtype), x).unsqueeze(-1).float() * rate.pow(3) / x.shape[-1]
        return (grad * rate - x * along).to(x.dtype), None, None


def unit(x: Tensor, eps: float, dtype: torch.dtype | None = None) -> Tensor:
    """Each row of x over its root mean square, in `dtype` (that of x by default); the division is in float32."""
    out: Tensor = _Unit.apply(x, eps, dtype or x.dtype)  # type: ignore[no-untyped-call]
    return out
