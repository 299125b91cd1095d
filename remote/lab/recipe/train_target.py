"""Training of the target: next tokens of the corpus, in bfloat16 products over float32 weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remote.lab.recipe.budget import Budget
from remote.lab.recipe.geometry import TargetShape
from remote.lab.recipe.optimise import Optimiser, rate
from remote.lab.recipe.parallel import PARTS, gradients
from remote.lab.recipe.state import Journal, read_state, write_whole
from remote.lab.recipe.target import Layer, Target, new_target

STAGE = "target"
MATRICES = ("q_a", "q_b", "kv_a", "kv_b", "o", "gate", "up", "down")
TABLE_RATE, OTHER_RATE = 4e-3, 2e-3  # embedding and head; norms and routers
BIAS_RATE = 0.002  # of routing biases, per step
HELD_TEXTS = 16  # of a validation inside of training


def batches(tokens: Tensor, batch: int, length: int, seed: int, first: int) -> Iterator[Tensor]:
    """Texts [batch, length + 1] without end, from batch number `first` on.

    An epoch cuts the tokens at a new offset and shuffles the pieces; both follow from seed and epoch alone, so that
    a run goes on where it was killed.
    """
    a_pass = (len(tokens) - length - 1) // length // batch
    if a_pass < 1:
        raise ValueError(f"{len(tokens)} tokens make no batch of {batch} texts of {length}")
    number = first
    while True:
        epoch, at = divmod(number, a_pass)
        generator = torch.Generator().manual_seed(seed * 100_003 + epoch)
        offset = int(torch.randint(0, length, (), generator=generator))
        order = torch.randperm((len(tokens) - offset - 1) // length, generator=generator)
        for place in range(at, a_pass):
            starts = order[place * batch : (place + 1) * batch] * length + offset
            yield torch.stack([tokens[s : s + length + 1] for s in starts.tolist()])
            number += 1


def loss_of(model: Target, texts: Tensor, work: torch.dtype, loads: list[Tensor] | None = None) -> Tensor:
    """Mean nats a token."""
    logits = model(texts[:, :-1], work=work, loads=loads).float()
    return F.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())


@torch.no_grad()
def held_loss(model: Target, held: Tensor, texts: int, length: int, work: torch.dtype) -> float:
    """Nats a token over so many held-out texts, spread evenly."""
    parts = torch.split(held_texts(held, texts, length), 8)
    return sum(float(loss_of(model, part, work)) * len(part) for part in parts) / texts


def held_texts(held: Tensor, texts: int, length: int) -> Tensor:
    """Texts [texts, length + 1], spread evenly over the held-out tokens."""
    stride = max(1, (len(held) - length - 1) // texts)
    return torch.stack([held[i * stride : i * stride + length + 1] for i in range(texts)])


def optimiser(model: Target, share: float = 1.0) -> Optimiser:
    """The target's; `share` scales every learning rate."""
    named = dict(model.named_parameters())
    short = {name: name.rsplit(".", 1)[-1] for name in named}
    tables = [named[n] for n in named if short[n] in ("embedding", "head")]
    matrices = [named[n] for n in named if short[n] in MATRICES]
    rest: list[nn.Parameter] = [named[n] for n in named if short[n] not in (*MATRICES, "embedding", "head")]
    groups = [(tables, TABLE_RATE * share, 0.01), (rest, OTHER_RATE * share, 0.0)]
    return Optimiser(matrices, groups, matrix_rate=0.02 * share)


def balance(model: Target, loads: list[Tensor], share: float) -> None:
    """Move each routing bias towards experts that were chosen less than their part (DeepSeek-V3, section 2.1.2)."""
    routed = [layer for layer in model.layers if isinstance(layer, Layer) and layer.bias is not None]
    for layer, load in zip(routed, loads, strict=True):
        assert layer.bias is not None
        layer.bias += BIAS_RATE * share * torch.sign(load.mean() - load)


def shared(model: Target, texts: Tensor) -> tuple[float, list[Tensor]]:
    """Gradients of one batch, worked out in parts beside each other; gives its loss, and the loads of the experts."""

    def work(part: Tensor) -> tuple[Tensor, list[Tensor]]:
        loads: list[Tensor] = []
        return loss_of(model, part, torch.bfloat16, loads) * (len(part) / len(texts)), loads

    loss, extras = gradients(list(model.parameters()), work, texts.tensor_split(PARTS))
    return loss, [sum(several[1:], several[0]) for several in zip(*extras, strict=True)]


def train_target(
    shape: TargetShape, tokens: Tensor, held: Tensor, budget: Budget, seed: int, state: Path, journal: Journal
) -> Target:
    """The trained target; goes on from the checkpoint in `state`, where there is one."""
    model = new_target(shape, torch.Generator().manual_seed(seed))
    moves, first, average = optimiser(model), 0, 0.0
    if (kept := read_state(state)) is not None:
        model.load_state_dict(kept["model"])
        moves.load(kept["moves"])
        first, average = int(kept["step"]), float(kept["average"])
    journal.resume(STAGE, first)
    texts = batches(tokens, budget.target_batch, budget.length, seed, first)
    for step in range(first, budget.target_steps):
        share = rate(step, budget.target_steps)
        loss, loads = shared(model, next(texts))
        moves.step(share)
        balance(model, loads, share)
        average = loss if step == 0 else 0.95 * average + 0.05 * loss
        done = step + 1
        last = done == budget.target_steps
        journal.tick(STAGE, done, budget.target_steps)
        if done % budget.report == 0 or last:
            values = {"train": average}
            if done % (4 * budget.report) == 0 or last:
                values["held"] = held_loss(model, held, HELD_TEXTS, budget.length, torch.bfloat16)
            journal.add(STAGE, done, budget.target_steps, **values)
        if done % budget.every == 0 or last:
            whole = {"model": model.state_dict(), "moves": moves.state(), "step": done, "average": average}
            write_whole(state, whole)
    return model.eval()
