"""Loops: texts that repeat themselves to their end, and the tokens that keep them going."""

from __future__ import annotations

import torch
from torch import Tensor

LONGEST = 20  # tokens; a longer period is no loop
TAIL = 40  # tokens at a text's end that must be periodic
ENOUGH = 8  # tokens said again before a repetition counts as one


def looping(continuations: Tensor) -> Tensor:
    """Which continuations [B, T] end in a loop: their last `TAIL` tokens have a period of `LONGEST` or less. [B] bool.

    None does that is shorter than `TAIL`: so few tokens do not tell.

    >>> looping(torch.stack([torch.arange(64) % 7, torch.arange(64)])).tolist()
    [True, False]
    """
    found = torch.zeros(len(continuations), dtype=torch.bool)
    if continuations.shape[1] < TAIL:
        return found
    tail = continuations[:, -TAIL:]
    for period in range(1, LONGEST + 1):
        found |= (tail[:, period:] == tail[:, :-period]).all(dim=1)
    return found


def repeated(texts: Tensor) -> Tensor:
    """Tokens of texts [B, T] that go on with a repetition: a whole period was said again before them. [B, T] bool.

    >>> repeated(torch.tensor([[9, 8, *([1, 2, 3, 4, 5, 6, 7] * 3)]]))[0].nonzero().flatten().tolist()
    [17, 18, 19, 20, 21, 22]
    """
    found = torch.zeros_like(texts, dtype=torch.bool)
    for period in range(1, LONGEST + 1):
        same = torch.zeros_like(found)
        same[:, period:] = texts[:, period:] == texts[:, :-period]
        # How many tokens up to each one are as those a period before: counted from the last that is not.
        place = torch.arange(texts.shape[1]).expand_as(texts)
        broken = torch.where(same, -1, place).cummax(dim=1).values
        found |= place - broken > max(period, ENOUGH)
    return found
