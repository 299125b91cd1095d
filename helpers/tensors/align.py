"""Pairs rows that were served with rows that were trained on, by token ids.

A hidden state depends on all tokens up to its own, so two rows are comparable as far as their texts agree from the
first token on. A served request may be longer than its sample or shorter, and the order is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Sample

# A shorter common start says more about a shared system prompt or BOS than about the sample.
MIN_TOKENS = 4


@dataclass(frozen=True)
class Pairing:
    """Rows of a served request and of a sample that hold the same token after the same text.

    ``served`` are rows of the capture, ``trained`` rows of the sample; both [N], in order of position.
    """

    request: int
    sample: Sample
    served: Int64[Tensor, " N"]
    trained: Int64[Tensor, " N"]

    def __len__(self) -> int:
        return len(self.served)

    def where(self, keep: Tensor) -> Pairing:
        """The pairing of a part of its rows (a mask)."""
        return Pairing(self.request, self.sample, self.served[keep], self.trained[keep])


@runtime_checkable
class Rows(Protocol):
    """Rows of texts: a rank of a capture, or a view of it."""

    @property
    def token_ids(self) -> Int64[Tensor, " T"]: ...
    @property
    def positions(self) -> Int64[Tensor, " T"]: ...
    @property
    def request(self) -> Tensor: ...


def align(capture: Capture, samples: Iterable[Sample], *, rank: int = 0) -> Iterator[Pairing]:
    """Pair each sample with the request that shares the longest start with it; samples without one are left out."""
    return align_rows(capture.ranks[rank], samples)


def align_rows(rows: Rows, samples: Iterable[Sample]) -> Iterator[Pairing]:
    """As `align`, for the rows of a rank or a view.

    Raises:
        UsageError: ``WB-DUMP-TOKENS`` where a sample has no token ids to align by.
    """
    texts = []
    for number in sorted(set(rows.request.tolist())):
        index = (rows.request == number).nonzero().flatten()
        texts.append((int(number), index, rows.positions[index], rows.token_ids[index]))
    for sample in samples:
        if int(sample.token_ids.min()) < 0:
            raise UsageError(
                "WB-DUMP-TOKENS",
                f"{sample.source} was dumped without token ids",
                expected="token ids beside the states: rows are paired by them",
                next="dump input_ids and positions as well",
            )
        best, best_length = -1, 0
        for place, (_, _, positions, tokens) in enumerate(texts):
            length = common(positions, tokens, sample.token_ids)
            if length > best_length:
                best, best_length = place, length
        if best < 0 or best_length < min(MIN_TOKENS, len(sample.token_ids)):
            continue
        number, index, positions, _ = texts[best]
        yield Pairing(number, sample, index[:best_length], positions[:best_length])


def common(positions: Int64[Tensor, " N"], tokens: Int64[Tensor, " N"], text: Int64[Tensor, " T"]) -> int:
    """How many of a request's rows, from its first, hold the token that the text has at their position.

    Rows that a prefix cache spared are absent from the start; what they held is then known only by what follows.
    """
    inside = positions < len(text)
    same = torch.zeros(len(tokens), dtype=torch.bool)
    same[inside] = text[positions[inside]] == tokens[inside]
    return int(same.long().cumprod(dim=0).sum())


def feed_index(capture: Capture, *, rank: int = 0) -> Int64[Tensor, " T"]:
    """For each row of the capture, its row in the feed; -1 where it has none."""
    rows = capture.ranks[rank]
    index = torch.full((len(rows.token_ids),), -1)
    if rows.feed_rows is not None:
        index[rows.feed_rows] = torch.arange(len(rows.feed_rows))
    return index
