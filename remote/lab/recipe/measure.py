"""What the card says of a pair: losses, loops and step agreement, each with its n and a 95% interval."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from remote.lab.recipe.geometry import STEPS
from remote.lab.recipe.loops import looping
from remote.lab.recipe.samples import Samples
from remote.lab.recipe.target import Target
from remote.lab.recipe.tokens import Tokens
from remote.lab.recipe.train_target import held_loss

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


def target_figures(model: Target, tokens: Tokens, samples: Samples, prompt: int, length: int) -> dict[str, Any]:
    """Of the target as it is served (rounded weights, float32): nats a held-out token, share of texts that loop."""
    loop = looping(samples.held[:, prompt : prompt + SERVED])
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_loss": held_loss(model, tokens.held, TEXTS, length, torch.float32),
        "held_loss_tokens": TEXTS * length,
        "loops": int(loop.sum()),
        "loop_texts": len(loop),
        "loop_share": float(loop.float().mean()),
        "loop_ci95": wilson(int(loop.sum()), len(loop)),
    }


def drafter_figures(per_text: Tensor, samples: Samples, prompt: int) -> dict[str, Any]:
    """Of a drafter: survival of each step and the accept rate over all positions, also of texts that do not loop."""
    rates = per_text.sum(dim=1) / STEPS
    free = ~looping(samples.held[:, prompt : prompt + SERVED])
    figures: dict[str, Any] = {
        "survival": per_text.mean(dim=0).tolist(),
        "rate": float(rates.mean()),
        "rate_ci95": bootstrap(rates),
        "texts": len(rates),
        "loop_free_texts": int(free.sum()),
    }
    if bool(free.any()):
        figures["loop_free_rate"] = float(rates[free].mean())
    return figures
