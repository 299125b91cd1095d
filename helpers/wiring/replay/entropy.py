"""Step-1 cross-entropy of many wirings on one sample of rows, quick enough to try hundreds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from helpers.wiring.drafter import Drafter, Target, chain
from helpers.wiring.replay.judge import FIRST, Judge, cross_entropy
from helpers.wiring.replay.projection import Projection, project
from helpers.wiring.replay.run import batches
from helpers.wiring.replay.taps import Source, Text

# Rows of the sample, and what the projected ladder and the target's probabilities may take of memory.
SAMPLE_ROWS = 1536
SAMPLE_BYTES = 2 << 30


@dataclass(frozen=True)
class Sample:
    """A batch of texts: the ladder put through fc, next tokens [B, T - 1], wanted probabilities, and rows per text."""

    ladder: Projection
    next_tokens: Int64[Tensor, "B T"]
    wanted: list[Float[Tensor, "_ D"]]


@dataclass(frozen=True)
class Entropies:
    """Gives the mean cross-entropy of any wiring on a sample of `rows` rows of `requests` requests."""

    drafter: Drafter
    samples: list[Sample]
    rows: int
    requests: int

    @staticmethod
    def prepare(drafter: Drafter, target: Target, source: Source) -> Entropies | None:
        """Project the ladder of a sample of whole texts, spread over the capture; None where nothing can be judged."""
        judge = Judge(source, target, drafter.to_target)
        if not judge.able:
            return None
        texts, length = choose(drafter, source)
        samples = []
        for batch in batches(texts):
            cut = [text.tokens[:length] for text in batch]
            samples.append(
                Sample(
                    ladder=project(drafter, source, batch, length),
                    next_tokens=pad_sequence(cut, batch_first=True)[:, 1:],
                    wanted=[judge.wanted(text, min(len(text), length)) for text in batch],
                )
            )
        rows = sum(len(wanted) for sample in samples for wanted in sample.wanted)
        return Entropies(drafter, samples, rows, len(texts)) if rows else None

    @torch.no_grad()
    def of(self, taps: Sequence[int]) -> float:
        """Mean cross-entropy, in nats a row."""
        total = 0.0
        for sample in self.samples:
            state = sample.ladder.state(taps)[:, :-1]
            logits = next(chain(self.drafter, sample.next_tokens, state, 1)).logits
            for place, wanted in enumerate(sample.wanted):
                total += cross_entropy(wanted, logits[place, FIRST : FIRST + len(wanted)])
        return total / self.rows


def choose(drafter: Drafter, source: Source) -> tuple[list[Text], int]:
    """Texts of the sample, and to how many rows they are cut (only where not even one would fit)."""
    ladder = drafter.slots * len(source.rank.boundaries) * drafter.config.hidden_size * drafter.dtype.itemsize
    budget = min(SAMPLE_ROWS, max(SAMPLE_BYTES // (ladder + 4 * len(drafter.head)), 64))
    texts = source.texts
    mean = max(sum(map(len, texts)) // len(texts), 1)
    count = max(min(budget // mean, len(texts)), 1)
    chosen = [texts[place * len(texts) // count] for place in range(count)]
    return chosen, max(budget // count, 2)
