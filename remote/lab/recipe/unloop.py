"""A short training against loops, after the target's own: unlikelihood of tokens that go on with a repetition.

A small model that is asked for its likeliest token soon says the same line again, and what was said twice is likelier
still the third time. Each round lets the target continue texts greedily, marks the tokens that go on with a repetition
(`loops.repeated`), and pushes their probability down, -log(1 - p) (Welleck et al. 2020, "Neural text generation with
unlikelihood training"), beside the usual loss on the corpus, so that nothing else is forgotten.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from remote.lab.recipe.budget import Budget
from remote.lab.recipe.generate import continue_texts, pieces
from remote.lab.recipe.loops import looping, repeated
from remote.lab.recipe.optimise import Optimiser
from remote.lab.recipe.parallel import PARTS, gradients
from remote.lab.recipe.state import Journal, read_state, write_whole
from remote.lab.recipe.target import Target
from remote.lab.recipe.train_target import batches, loss_of, optimiser

STAGE = "unloop"
RATE = 0.1  # of the training's full learning rates
WEIGHT = 0.5  # of unlikelihood beside the usual loss
NEW = 64  # tokens of each continuation
TEXTS = 16  # continuations a step


def unlikelihood(model: Target, texts: Tensor, marked: Tensor, work: torch.dtype) -> Tensor:
    """Mean -log(1 - p) over the marked tokens of texts [B, T]; zero where none is marked."""
    logits = model(texts[:, :-1], work=work).float()
    said = torch.log_softmax(logits, dim=-1).gather(-1, texts[:, 1:, None]).squeeze(-1)
    against = -torch.log1p(-said.exp().clamp(max=1 - 1e-4))
    mask = marked[:, 1:].float()
    return (against * mask).sum() / mask.sum().clamp(min=1)


def find_loops(model: Target, tokens: Tensor, budget: Budget, seed: int) -> tuple[Tensor, Tensor, float]:
    """Continuations with repetitions, their marked tokens, and the share of all that end in a loop."""
    prompts = pieces(tokens, budget.unloop_texts, budget.prompt, seed)
    texts = continue_texts(model, prompts, NEW, work=torch.bfloat16)
    marked = repeated(texts)
    marked[:, : budget.prompt] = False
    share = float(looping(texts[:, budget.prompt :]).float().mean())
    some = marked.any(dim=1)
    return texts[some], marked[some], share


def one_step(
    model: Target, corpus: Tensor, texts: Tensor, marked: Tensor, moves: Optimiser, share: float
) -> tuple[float, float]:
    """A step on a batch of the corpus and on continuations beside it; gives the two losses."""

    def work(rows: Tensor) -> tuple[Tensor, tuple[float, float]]:
        likely = loss_of(model, corpus[rows], torch.bfloat16)
        some = rows[rows < len(texts)]
        unlikely = unlikelihood(model, texts[some], marked[some], torch.bfloat16) if len(some) else torch.zeros(())
        part = len(rows) / len(corpus)
        return (likely + WEIGHT * unlikely) * part, (float(likely.detach()) * part, float(unlikely.detach()) * part)

    # Dealt out, not cut: each part gets its share of both kinds of texts.
    parts = [torch.arange(len(corpus))[i::PARTS] for i in range(PARTS)]
    _, both = gradients(list(model.parameters()), work, parts)
    moves.step(share)
    return sum(a for a, _ in both), sum(b for _, b in both)


def unloop(model: Target, tokens: Tensor, budget: Budget, seed: int, state: Path, journal: Journal) -> Target:
    """The target, after as many rounds as the budget has; goes on after the last whole round in `state`."""
    first = 0
    if (kept := read_state(state)) is not None:
        model.load_state_dict(kept["model"])
        first = int(kept["step"])
    journal.resume(STAGE, first)
    for number in range(first, budget.unloop_rounds):
        texts, marked, share = find_loops(model, tokens, budget, seed * 1009 + number)
        usual = batches(tokens, budget.target_batch, budget.length, seed + 7919 * (number + 1), 0)
        moves = optimiser(model, RATE)
        generator = torch.Generator().manual_seed(seed * 1013 + number)
        losses = (0.0, 0.0)
        for step in range(budget.unloop_steps if len(texts) else 0):
            chosen = torch.randperm(len(texts), generator=generator)[:TEXTS]
            journal.tick(STAGE, number, budget.unloop_rounds)
            losses = one_step(model, next(usual), texts[chosen], marked[chosen], moves, 1 - step / budget.unloop_steps)
        told = {"loops_before": share, "train": losses[0], "unlikelihood": losses[1]}
        journal.add(STAGE, number + 1, budget.unloop_rounds, **told)
        write_whole(state, {"model": model.state_dict(), "step": number + 1})
    return model
