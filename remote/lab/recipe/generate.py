"""Continuations by the target itself: what the drafter learns from, and what loops are looked for in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from remote.lab.recipe.parallel import PARTS, beside
from remote.lab.recipe.target import Cache, Folded, Target

AT_ONCE = 64  # texts that are continued together


@torch.no_grad()
def continue_texts(
    model: Target,
    prompts: Tensor,
    new: int,
    *,
    temperatures: Tensor | None = None,
    seed: int = 0,
    work: torch.dtype = torch.float32,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> Tensor:
    """Prompts [B, P] with `new` tokens more, [B, P + new] int64.

    Args:
        temperatures: [B], 0 for greedy; greedy where None.
        seed: of the sampling; each group of texts has a generator of its own, so that their order does not matter.
        tell: called with the number of groups that are done, and of all.
    """
    wanted = torch.zeros(len(prompts)) if temperatures is None else temperatures
    folded = model.fold(work)
    jobs = list(enumerate(zip(torch.split(prompts, AT_ONCE), torch.split(wanted, AT_ONCE), strict=True)))

    def one(job: tuple[int, tuple[Tensor, Tensor]]) -> Tensor:
        number, (texts, heat) = job
        return _continue(model, folded, texts, new, heat, torch.Generator().manual_seed(seed * 100_003 + number), work)

    done: list[Tensor] = []
    for at in range(0, len(jobs), PARTS):
        done += beside(one, jobs[at : at + PARTS])
        tell(len(done), len(jobs))
    return torch.cat(done)


@torch.no_grad()
def _continue(
    model: Target,
    folded: list[Folded],
    texts: Tensor,
    new: int,
    heat: Tensor,
    generator: torch.Generator,
    work: torch.dtype,
) -> Tensor:
    cache = Cache(model.shape, len(texts), texts.shape[1] + new, work)
    out, ids = [texts], texts
    for _ in range(new):
        logits = model(ids, work=work, cache=cache, last=True, folded=folded)[:, -1].float()
        ids = logits.argmax(dim=-1, keepdim=True)
        if bool((heat > 0).any()):
            drawn = torch.multinomial(torch.softmax(logits / heat.clamp(min=0.05)[:, None], -1), 1, generator=generator)
            ids = torch.where(heat[:, None] > 0, drawn, ids)
        out.append(ids)
    return torch.cat(out, dim=1)


def pieces(tokens: Tensor, count: int, length: int, seed: int) -> Tensor:
    """So many texts [count, length] from random places of a stream of tokens."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(tokens) - length, (count,), generator=generator)
    return torch.stack([tokens[s : s + length] for s in starts.tolist()])
