"""What a drafter learns from: texts that the target itself continued, with its taps and its view of the next token."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from remote.lab.recipe.budget import Budget
from remote.lab.recipe.generate import continue_texts, pieces
from remote.lab.recipe.parallel import PARTS, beside
from remote.lab.recipe.state import Journal
from remote.lab.recipe.target import Target
from remote.lab.recipe.tokens import Tokens

STAGE = "continuations"
HEAT = 0.8
GROUP = 64
TEXTS_OF_MEASURES = 128  # held-out texts


@dataclass(frozen=True)
class Samples:
    """Texts of tokens [B, prompt + new] int64: to train on, and of held-out files, all greedy."""

    train: Tensor
    held: Tensor


def held_prompts(tokens: Tokens, count: int, length: int) -> Tensor:
    """Prompts [count, length] from held-out files, evenly spread; each lies within one file."""
    edges = [*tokens.held_starts, len(tokens.held)]
    room = [max(0, end - start - length) for start, end in pairwise(edges)]
    stride = sum(room) / count
    chosen = []
    for number in range(count):
        at = int((number + 0.5) * stride)
        file = 0
        while at >= room[file]:
            at -= room[file]
            file += 1
        start = edges[file] + at
        chosen.append(tokens.held[start : start + length])
    return torch.stack(chosen)


def held_places(tokens: Tokens, length: int) -> int:
    """At how many places of the held-out files a prompt of so many tokens can start."""
    edges = [*tokens.held_starts, len(tokens.held)]
    return sum(max(0, end - start - length) for start, end in pairwise(edges))


def temperatures(count: int) -> Tensor:
    """Of so many texts, [count]: 0 is greedy, as the lab is asked; every fourth group is drawn."""
    return torch.where(torch.arange(count) // GROUP % 4 != 3, 0.0, HEAT)


def greedy(count: int) -> int:
    return int((temperatures(count) == 0).sum())


def make_samples(model: Target, tokens: Tokens, budget: Budget, seed: int, out: Path, journal: Journal) -> Samples:
    """The texts, generated once and kept in `out`; killed meanwhile, this stage begins again."""
    if not out.exists():
        journal.say(f"{budget.samples} texts continued by the target itself")
        journal.resume(STAGE, 0)
        prompts = pieces(tokens.train, budget.samples, budget.prompt, seed + 17)
        heats = temperatures(len(prompts))
        tell = partial(journal.tick, STAGE)
        train = continue_texts(model, prompts, budget.new, temperatures=heats, seed=seed, tell=tell)
        count = max(budget.shown, min(TEXTS_OF_MEASURES, budget.samples))
        held = continue_texts(model, held_prompts(tokens, count, budget.prompt), budget.new)
        out.parent.mkdir(parents=True, exist_ok=True)
        save_file({"train": train.short(), "held": held.short()}, out.with_name(out.name + ".part"))
        os.replace(out.with_name(out.name + ".part"), out)
    stored = load_file(out)
    return Samples(stored["train"].long(), stored["held"].long())


def draft_tokens(samples: Samples, tokens: Tokens, prompt: int, count: int, vocab: int) -> Tensor:
    """The tokens that a drafter can say, [count] int64 ascending: the likeliest in what the target wrote.

    The corpus counts a tenth, to order those that it did not write.
    """
    written = torch.bincount(samples.train[:, prompt:].flatten(), minlength=vocab).float()
    written += 0.1 * torch.bincount(tokens.train, minlength=vocab)
    return written.topk(count).indices.sort().values


@torch.no_grad()
def taps_and_logits(
    model: Target,
    texts: Tensor,
    boundaries: Sequence[int],
    chosen: Tensor,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[Tensor, Tensor]:
    """The taps [B, T, slots * hidden] and logits of the chosen tokens [B, T, chosen], both as a trainer stores them:
    worked out in float32, kept in bfloat16."""

    def one(part: Tensor) -> tuple[Tensor, Tensor]:
        stream: list[Tensor] = []
        logits = model(part, boundaries=stream)
        return torch.cat([stream[b] for b in boundaries], dim=-1).bfloat16(), logits[..., chosen].bfloat16()

    parts = list(torch.split(texts, 16))
    done: list[tuple[Tensor, Tensor]] = []
    for at in range(0, len(parts), PARTS):
        done += beside(one, parts[at : at + PARTS])
        tell(len(done), len(parts))
    return torch.cat([taps for taps, _ in done]), torch.cat([logits for _, logits in done])
