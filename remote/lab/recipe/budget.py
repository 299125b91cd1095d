"""How much is trained, in steps and samples, never in seconds: the same budget gives the same pair."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """One size of the recipe.

    Attributes:
        target_steps, target_batch, length: steps of the target's training, texts a step, tokens a text.
        unloop_rounds, unloop_texts, unloop_steps: rounds of training against loops, continuations that each round
            looks at, steps of each round.
        samples, prompt, new: texts that the target continues for the drafter, and tokens of each part.
        drafter_steps, finish_steps: steps of the drafter, and of a second fall of the rate from a third of it.
        mirror_steps, drafter_batch: steps of the mirror, texts a step of both.
        every: steps between checkpoints. report: steps between lines of the journal. shown: held-out prompts.
    """

    target_steps: int
    target_batch: int
    unloop_rounds: int
    unloop_texts: int
    unloop_steps: int
    samples: int
    drafter_steps: int
    finish_steps: int
    mirror_steps: int
    drafter_batch: int
    every: int
    report: int
    length: int = 192
    prompt: int = 96
    new: int = 64
    shown: int = 32


BUDGETS = {
    # 30 minutes on two idle cores, 50 of processor time (docs/LOG.md).
    "full": Budget(1200, 21, 7, 128, 12, 3072, 2400, 600, 600, 8, 50, 25),
    # Some seconds: what the tests train.
    "tiny": Budget(6, 4, 1, 8, 2, 16, 4, 2, 4, 4, 2, 2, length=64, prompt=32, new=16, shown=4),
}
