"""What the card says of a pair: losses, loops and step agreement, each with its n and a 95% interval."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from remote.lab.recipe.budget import Budget
from remote.lab.recipe.geometry import STEPS
from remote.lab.recipe.loops import TAIL, looping
from remote.lab.recipe.samples import Samples
from remote.lab.recipe.target import Target
from remote.lab.recipe.tokens import Tokens
from remote.lab.recipe.train_target import held_texts, loss_of

TEXTS = 96  # of the validation
SERVED = 64  # new tokens, as the lab's prompts are asked for
DRAWS = 2000


def wilson(count: int, n: int) -> list[float]:
    """The 95% interval of a share.

    >>> [round(x, 3) for x in wilson(5, 50)]
    [0.043, 0.214]
    """
    z, share = 1.96, count / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return [middle - half, middle + half]


def bootstrap(values: Tensor) -> list[float]:
    """The 95% interval of a mean over texts [B]."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, len(values), (DRAWS, len(values)), generator=generator)
    means = values[drawn].mean(dim=1).sort().values
    return [float(means[int(0.025 * DRAWS)]), float(means[int(0.975 * DRAWS)])]


@torch.no_grad()
def target_figures(model: Target, tokens: Tokens, samples: Samples, budget: Budget) -> dict[str, Any]:
    """Of the target as it is served (rounded weights, float32): nats a held-out token, share of texts that loop."""
    loop = looping(continuations(samples, budget))
    texts = held_texts(tokens.held, TEXTS, budget.length)
    nats = torch.tensor([float(loss_of(model, text[None], torch.float32)) for text in texts])
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_loss": float(nats.mean()),
        "held_loss_ci95": bootstrap(nats),
        "held_loss_tokens": TEXTS * budget.length,
        "loops_judged": continuations(samples, budget).shape[1] >= TAIL,
        "loops": int(loop.sum()),
        "loop_texts": len(loop),
        "loop_share": float(loop.float().mean()),
        "loop_ci95": wilson(int(loop.sum()), len(loop)),
    }


def continuations(samples: Samples, budget: Budget) -> Tensor:
    """What the target wrote behind the held-out prompts, as far as the lab's prompts are asked for."""
    return samples.held[:, budget.prompt : budget.prompt + SERVED]


def drafter_figures(per_text: Tensor, samples: Samples, budget: Budget) -> dict[str, Any]:
    """Of a drafter: survival of each step and the accept rate over all positions, also of texts that do not loop.

    Args:
        per_text: [B, STEPS], what `train_drafter` gives.
    """
    rates = per_text.sum(dim=1) / STEPS
    free = ~looping(continuations(samples, budget))
    figures: dict[str, Any] = {
        "survival": per_text.mean(dim=0).tolist(),
        "survival_ci95": [bootstrap(step) for step in per_text.T],
        "rate": float(rates.mean()),
        "rate_ci95": bootstrap(rates),
        "texts": len(rates),
        "loop_free_texts": int(free.sum()),
    }
    if bool(free.any()):
        figures["loop_free_rate"] = float(rates[free].mean())
        figures["loop_free_ci95"] = bootstrap(rates[free])
    return figures
