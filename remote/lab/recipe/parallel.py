"""A batch in parts, each on a thread of its own.

torch's own threads wait for each other after every one of a thousand small operations a step; beside other work they
wait longer than they work. Parts meet once a step. Their number is fixed and their gradients are added in order, so
the result does not depend on how many cores there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor, nn

PARTS = 2
A = TypeVar("A")
B = TypeVar("B")


def gradients(
    weights: Sequence[nn.Parameter], work: Callable[[Tensor], tuple[Tensor, A]], parts: Sequence[Tensor]
) -> tuple[float, list[A]]:
    """Put the gradient of the parts' summed losses into each weight.

    Args:
        work: gives a part's loss (a scalar that was already weighed) and whatever else is wanted of it.

    Returns:
        The summed loss, and what else `work` gave, part by part.
    """

    def one(part: Tensor) -> tuple[float, A, tuple[Tensor, ...]]:
        loss, extra = work(part)
        return float(loss.detach()), extra, torch.autograd.grad(loss, weights)

    done = beside(one, parts)
    for weight, *several in zip(weights, *(grads for _, _, grads in done), strict=True):
        weight.grad = several[0] if len(several) == 1 else sum(several[1:], several[0])
    return sum(loss for loss, _, _ in done), [extra for _, extra, _ in done]


def beside(work: Callable[[A], B], parts: Sequence[A]) -> list[B]:
    """`work` of each part, on a thread each; torch itself is held to one thread meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(len(parts)) as pool:
            return list(pool.map(work, parts))
    finally:
        torch.set_num_threads(threads)
