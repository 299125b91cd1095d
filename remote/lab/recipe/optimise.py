"""What moves the weights: Muon for matrices, AdamW for the rest, one schedule for both.

Muon (K. Jordan, 2024) makes each matrix's step orthogonal by five Newton-Schulz products. Matrices of one shape are
stepped together, all layers and experts at once: one batched product instead of hundreds of small ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
MOMENTUM = 0.95
DECAY = 0.05  # of matrices, times the learning rate
WARMUP = 20  # steps
FLAT = 0.4  # of all steps, before the rate falls to its end
END = 0.02


def rate(step: int, steps: int) -> float:
    """The share of the full learning rate in a step: a short rise, a plateau, a line down.

    >>> rate(0, 100), rate(30, 100), round(rate(99, 100), 2)
    (0.05, 1.0, 0.02)
    """
    done = step / steps
    fall = 1.0 if done < FLAT else max(END, (1 - done) / (1 - FLAT))
    return min(1.0, (step + 1) / min(WARMUP, steps)) * fall


class Optimiser:
    """Muon on some weights, AdamW on others.

    Args:
        matrices: weights [..., out, in], stepped by Muon; leading dimensions are matrices of their own.
        others: groups of weights with AdamW's learning rate of each, and its weight decay.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[tuple[list[nn.Parameter], float, float]],
        matrix_rate: float = 0.02,
    ) -> None:
        self.matrix_rate = matrix_rate
        self.groups: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for weight in matrices:
            self.groups.setdefault(tuple(weight.shape[-2:]), []).append(weight)
        self.momentum = {shape: self._stack(shape, [w.data for w in ws]).mul(0) for shape, ws in self.groups.items()}
        self.adam = torch.optim.AdamW(
            [{"params": ws, "lr": lr, "base": lr, "weight_decay": decay} for ws, lr, decay in others],
            betas=(0.9, 0.97),
            fused=True,
        )

    @staticmethod
    def _stack(shape: tuple[int, ...], tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(-1, *shape) for t in tensors])

    @torch.no_grad()
    def step(self, share: float) -> None:
        """One step at `share` of the full rates; gradients are dropped."""
        for group in self.adam.param_groups:
            group["lr"] = group["base"] * share
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for shape, weights in self.groups.items():
            grads = self._stack(shape, [w.grad for w in weights if w.grad is not None])
            momentum = self.momentum[shape].mul_(MOMENTUM).add_(grads)
            update = orthogonal(grads.add_(momentum, alpha=MOMENTUM))
            size = self.matrix_rate * share * max(1.0, shape[0] / shape[1]) ** 0.5
            at = 0
            for weight in weights:
                count = weight.numel() // (shape[0] * shape[1])
                step = update[at : at + count].view_as(weight)
                weight.mul_(1 - self.matrix_rate * share * DECAY).add_(step, alpha=-size)
                weight.grad = None
                at += count

    def state(self) -> dict[str, Any]:
        momentum = {"x".join(map(str, shape)): value for shape, value in self.momentum.items()}
        return {"momentum": momentum, "adam": self.adam.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        for shape, value in self.momentum.items():
            value.copy_(state["momentum"]["x".join(map(str, shape))])
        self.adam.load_state_dict(state["adam"])


def orthogonal(x: Tensor) -> Tensor:
    """Each matrix of [n, out, in] with all its singular values brought near one; the work is done in bfloat16."""
    a, b, c = NEWTON_SCHULZ
    flip = x.shape[-2] > x.shape[-1]
    y = (x.mT if flip else x).contiguous()
    y = (y / (torch.linalg.matrix_norm(y, keepdim=True) + 1e-7)).bfloat16()
    for _ in range(ROUNDS):
        product = y @ y.mT
        y = a * y + (b * product + c * product @ product) @ y
    out: Tensor = (y.mT if flip else y).to(x.dtype)
    return out
