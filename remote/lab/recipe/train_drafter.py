"""Training of a drafter over its own draft steps ("training-time test", EAGLE-3), against the target's distribution."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from remote.lab.recipe.budget import Budget
from remote.lab.recipe.drafter import NAMES, Drafter, new_drafter
from remote.lab.recipe.export import write_model
from remote.lab.recipe.geometry import STEPS, DrafterShape
from remote.lab.recipe.optimise import Optimiser, rate
from remote.lab.recipe.parallel import PARTS, gradients
from remote.lab.recipe.samples import Samples, taps_and_logits
from remote.lab.recipe.state import Journal, read_state, write_whole
from remote.lab.recipe.target import Target

MATRICES = ("fc", "q", "k", "v", "o", "gate", "up", "down")
OTHER_RATE = 3e-3  # head and norms
FADE = 0.8  # a later step counts so much of the one before
FINISH = 1 / 3  # of the full rates, from which they fall once more
SKIPPED = 8  # first rows: nothing came before them that a draft could follow from


def drafter_loss(model: Drafter, ids: Tensor, taps: Tensor, logits: Tensor, embedding: Tensor) -> Tensor:
    """Cross-entropy against the target's distribution over the drafter's tokens, summed over steps, later ones less.

    Args:
        ids: [B, T]. taps: [B, T, slots * hidden]. logits: [B, T, draft_vocab], the target's.
    """
    wanted = torch.softmax(logits.float(), dim=-1)
    total = torch.zeros(())
    for step, said in enumerate(model(ids, taps, embedding, torch.bfloat16)):
        truth = wanted[:, step + 1 : step + 1 + said.shape[1]]
        nats = -(truth * torch.log_softmax(said.float(), dim=-1)).sum(dim=-1)
        total = total + FADE**step * nats[:, SKIPPED:].mean()
    return total


@torch.no_grad()
def agreement(model: Drafter, held: Tensor, taps: Tensor, embedding: Tensor, chosen: Tensor, prompt: int) -> Tensor:
    """For each text and step, at what part of its own tokens all drafts up to that step are right: S(k), [B, STEPS].

    Every token is a starting point here. A server starts only where a round ended, which is harder: see the card.

    Args:
        held: [B, T], prompts and the target's greedy continuations. chosen: the drafter's tokens as the target's ids.
    """
    right = torch.ones(())
    found = []
    for step, said in enumerate(model(held, taps, embedding)):
        tokens = chosen[said.argmax(dim=-1)][:, :-1]  # what the last row's last step says lies behind the text's end
        right = right * (tokens == held[:, step + 2 : step + 2 + tokens.shape[1]])
        found.append(right[:, prompt - 1 :].mean(dim=1))
    return torch.stack(found, dim=1)


def train_drafter(
    target: Target,
    samples: Samples,
    chosen: Tensor,
    boundaries: Sequence[int],
    budget: Budget,
    seed: int,
    state: Path,
    journal: Journal,
    stage: str,
    steps: int,
    finish: int = 0,
) -> tuple[Drafter, Tensor]:
    """A drafter that is fed these boundaries, and its `agreement`, as it is served, on held-out texts.

    Goes on from the checkpoint in `state`, where there is one.

    After `steps` the rates fall a second time over `finish` steps, from a third of the full ones.
    """
    shape = DrafterShape(vocab=target.shape.vocab, hidden=target.shape.hidden, draft_vocab=len(chosen))
    model = new_drafter(shape, torch.Generator().manual_seed(seed + 31))
    named = dict(model.named_parameters())
    others = [weight for name, weight in named.items() if name not in MATRICES]
    moves = Optimiser([named[name] for name in MATRICES], [(others, OTHER_RATE, 0.0)])
    first = 0
    if (kept := read_state(state)) is not None:
        model.load_state_dict(kept["model"])
        moves.load(kept["moves"])
        first = int(kept["step"])
    whole = steps + finish
    held_taps, _ = taps_and_logits(target, samples.held, boundaries, chosen)
    if first < whole:
        journal.resume(f"{stage}: taps", 0)
        tell = partial(journal.tick, f"{stage}: taps")
        taps, logits = taps_and_logits(target, samples.train, boundaries, chosen, tell)
    journal.resume(stage, first)
    a_pass = max(1, len(samples.train) // budget.drafter_batch)
    for step in range(first, whole):
        epoch, at = divmod(step, a_pass)
        order = torch.randperm(len(samples.train), generator=torch.Generator().manual_seed(seed * 100_019 + epoch))
        rows = order[at * budget.drafter_batch : (at + 1) * budget.drafter_batch]

        def work(part: Tensor, count: int = len(rows)) -> tuple[Tensor, None]:
            loss = drafter_loss(model, samples.train[part], taps[part], logits[part], target.embedding)
            return loss * (len(part) / count), None

        loss, _ = gradients(list(named.values()), work, rows.tensor_split(PARTS))
        moves.step(rate(step, steps) if step < steps else FINISH * (1 - (step - steps) / finish))
        done = step + 1
        last = done in (steps, whole)
        journal.tick(stage, done, whole)
        if done % budget.report == 0 or last:
            values = {"train": loss}
            if done % (4 * budget.report) == 0 or last:
                per_text = agreement(model, samples.held, held_taps, target.embedding, chosen, budget.prompt)
                survival = per_text.mean(dim=0).tolist()
                values |= {f"S{k + 1}": s for k, s in enumerate(survival)}
                values["held_rate"] = sum(survival) / STEPS
            journal.add(stage, done, whole, **values)
        if done % budget.every == 0 or last:
            write_whole(state, {"model": model.state_dict(), "moves": moves.state(), "step": done})
    served = rounded(model)
    return model, agreement(served, samples.held, held_taps, target.embedding, chosen, budget.prompt)


def rounded(model: Drafter) -> Drafter:
    """A copy with the weights that its folder will hold."""
    served = copy.deepcopy(model)
    with torch.no_grad():
        for weight in served.parameters():
            weight.copy_(weight.bfloat16())
    return served


def save_drafter(
    model: Drafter, chosen: Tensor, layer_ids: Sequence[int], out: Path, dtype: torch.dtype = torch.bfloat16
) -> None:
    """The drafter's folder: its weights, ``d2t`` (the target's id less the drafter's) and its inverse as ``t2d``."""
    weights = {NAMES[name]: weight.to(dtype) for name, weight in model.named_parameters()}
    spoken = torch.zeros(model.shape.vocab, dtype=torch.bool)
    spoken[chosen] = True
    tables = {"d2t": chosen - torch.arange(len(chosen)), "t2d": spoken}
    write_model(weights | tables, model.shape.config(layer_ids, str(dtype).removeprefix("torch.")), out)
