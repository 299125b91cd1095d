"""Pairs rows that were served with rows that were trained on, by token ids.

A hidden state depends on all tokens up to its own, so two rows are comparable as far as their texts agree from the
first token on. A served request may be longer than its sample or shorter, and the order is free. Each request goes
with one sample and each sample with one request, so that no row counts twice: a dump's other texts share its system
prompt with every request. Where a request leaves its sample, what they share says something of both only beyond the
start that other texts have as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Sample

# A shorter common start says more about a shared system prompt or BOS than about the sample.
MIN_TOKENS = 4
PIECE = 64  # tokens of every request that are held against a sample at once, twice as many after each


@dataclass(frozen=True)
class Pairing:
    """Rows of a served request and of a sample that hold the same token after the same text.

    ``served`` are rows of the capture, ``trained`` rows of the sample; both [N], in order of position. ``own`` is the
    position from which on no other text goes on alike; 0 where one of the two is contained in the other as a whole.
    """

    request: int
    sample: Sample
    served: Int64[Tensor, " N"]
    trained: Int64[Tensor, " N"]
    own: int = 0

    def __len__(self) -> int:
        return len(self.served)

    def where(self, keep: Tensor) -> Pairing:
        """The pairing of a part of its rows (a mask)."""
        return Pairing(self.request, self.sample, self.served[keep], self.trained[keep], self.own)


@dataclass(frozen=True)
class Alignment:
    """The pairings, in the order of the samples. ``shared``: tokens of the longest start that was left out, because
    other texts begin with it too and nothing of the sample follows."""

    pairings: list[Pairing]
    shared: int = 0


@runtime_checkable
class Rows(Protocol):
    """Rows of texts: a rank of a capture, or a view of it."""

    @property
    def token_ids(self) -> Int64[Tensor, " T"]: ...
    @property
    def positions(self) -> Int64[Tensor, " T"]: ...
    @property
    def request(self) -> Tensor: ...


def align(capture: Capture, samples: Iterable[Sample], *, rank: int = 0) -> list[Pairing]:
    """Pair each sample with the request that shares the longest start with it; samples without one are left out."""
    return align_rows(capture.ranks[rank], samples).pairings


def align_rows(rows: Rows, samples: Iterable[Sample]) -> Alignment:
    """As `align`, for the rows of a rank or a view. Samples are read once; those that are paired are kept.

    Raises:
        UsageError: ``WB-DUMP-TOKENS`` where a sample has no token ids to align by.
    """
    texts = Texts.of(rows)
    held = Held(texts)
    for number, sample in enumerate(samples):
        if int(sample.token_ids.min()) < 0:
            raise UsageError(
                "WB-DUMP-TOKENS",
                f"{sample.source} was dumped without token ids",
                expected="token ids beside the states: rows are paired by them",
                next="dump input_ids and positions as well",
            )
        held.offer(number, sample)
    pairings, shared = [], 0
    for place in held.chosen():
        best, length = held.samples[place], int(held.length[place])
        if best is None or length < min(MIN_TOKENS, len(best.token_ids)):
            continue
        others = max(int(held.others[place]), texts.shared(place)) if held.departs[place] else 0
        if others and length - others < MIN_TOKENS:
            shared = max(shared, int(texts.positions[place, length - 1]) + 1)
            continue
        index, positions = texts.index[place][:length], texts.positions[place, :length]
        own = int(positions[others]) if others else 0
        pairings.append(Pairing(texts.numbers[place], best, index, positions.clone(), own))
    return Alignment(pairings, shared)


@dataclass(frozen=True)
class Texts:
    """The requests side by side: ``tokens`` and ``positions`` [R, P] of their rows, padded by places in no text."""

    numbers: list[int]
    index: list[Tensor]
    positions: Int64[Tensor, "R P"]
    tokens: Int64[Tensor, "R P"]
    lengths: Int64[Tensor, " R"]

    @classmethod
    def of(cls, rows: Rows) -> Texts:
        numbers = sorted(set(rows.request.tolist()))
        index = [(rows.request == number).nonzero().flatten() for number in numbers]
        lengths = torch.tensor([len(one) for one in index], dtype=torch.long)
        size = (len(numbers), int(lengths.max()) if numbers else 0)
        positions, tokens = torch.full(size, torch.iinfo(torch.long).max), torch.full(size, -1)
        for place, one in enumerate(index):
            positions[place, : len(one)], tokens[place, : len(one)] = rows.positions[one], rows.token_ids[one]
        return cls([int(number) for number in numbers], index, positions, tokens, lengths)

    def common(self, text: Int64[Tensor, " T"]) -> tuple[Int64[Tensor, " R"], Bool[Tensor, " R"]]:
        """How many of each request's rows, from its first, hold the token that the text has at their position; and
        whether the two depart there, rather than that one of them ends. A token of -1 is one that is not known.

        Rows that a prefix cache spared are absent from the start; what they held is then known only by what follows.
        """
        count = torch.zeros_like(self.lengths)
        if len(text) == 0 or len(count) == 0:
            return count, count.bool()
        alive, at, step = torch.arange(len(count)), 0, PIECE
        while len(alive) and at < self.tokens.shape[1]:
            part = slice(at, at + step)
            positions = self.positions[alive, part]
            there = text[positions.clamp(max=len(text) - 1)]
            same = (positions < len(text)) & ((there == self.tokens[alive, part]) | (there < 0))
            run = same.long().cumprod(dim=1).sum(dim=1)
            count[alive] += run
            alive, at, step = alive[run == same.shape[1]], part.stop, 2 * step
        after = self.positions.gather(1, count.clamp(max=self.tokens.shape[1] - 1).unsqueeze(1)).squeeze(1)
        return count, (count < self.lengths) & (after < len(text))

    def shared(self, place: int) -> int:
        """With how many of its first rows a request's text is another one's too, which then goes on differently."""
        length = int(self.lengths[place])
        own = self.positions[place, :length]
        text = torch.full((int(own[-1]) + 1,), -1)
        text[own] = self.tokens[place, :length]
        count, departs = self.common(text)
        if not departs.any():
            return 0
        return int(torch.searchsorted(own, int(self.positions[departs, count[departs]].max())))


@dataclass
class Held:
    """For each request the sample that shares the longest start with it so far.

    ``length`` [R]: rows of that start. ``departs`` [R]: the two go on differently. ``others`` [R]: rows of the longest
    start that another sample shares with both, and departs from.
    """

    texts: Texts
    samples: list[Sample | None] = field(init=False)
    order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        many = len(self.texts.numbers)
        self.samples, self.order = [None] * many, [-1] * many
        self.length, self.others = torch.zeros(many, dtype=torch.long), torch.zeros(many, dtype=torch.long)
        self.departs = torch.zeros(many, dtype=torch.bool)

    def offer(self, number: int, sample: Sample) -> None:
        """Look at one more sample."""
        count, departs = self.texts.common(sample.token_ids)
        longer, equal = count > self.length, (count == self.length) & (count > 0)
        start = torch.where(longer, self.length, count)
        apart = (longer & self.departs) | ((count < self.length) & departs)
        self.others = torch.where(apart, torch.maximum(self.others, start), self.others)
        for place in (equal & self.departs & departs & (self.others < count)).nonzero().flatten().tolist():
            if continue_differently(self.samples[place], sample):
                self.others[place] = count[place]
        better = longer | (equal & self.departs & ~departs)  # at the same length, one that is there as a whole
        for place in better.nonzero().flatten().tolist():
            self.samples[place], self.order[place] = sample, number
        self.length = torch.where(better, count, self.length)
        self.departs = torch.where(better, departs, self.departs)

    def chosen(self) -> list[int]:
        """One request for each sample that has any, the one with the longest start; in the order of the samples."""
        best: dict[int, int] = {}
        for place, number in enumerate(self.order):
            if number >= 0 and (number not in best or self.length[place] > self.length[best[number]]):
                best[number] = place
        return [best[number] for number in sorted(best)]


def continue_differently(one: Sample | None, other: Sample) -> bool:
    """Whether two samples are of different texts, neither the start of the other."""
    if one is None:
        return False
    least = min(len(one.token_ids), len(other.token_ids))
    return not torch.equal(one.token_ids[:least], other.token_ids[:least])


def distinct_rows(pairings: Iterable[Pairing]) -> int:
    """How many rows are no copies of each other: those of a start that several requests share count once."""
    texts = sorted(
        ((p.sample.token_ids[: int(p.trained[-1]) + 1].tolist(), p) for p in pairings if len(p)), key=lambda one: one[0]
    )
    found, before = 0, list[int]()
    for text, pairing in texts:
        again = next(
            (i for i, (a, b) in enumerate(zip(text, before, strict=False)) if a != b), min(len(text), len(before))
        )
        found += int((pairing.trained >= max(pairing.own, again)).sum())
        before = text
    return found


def feed_index(capture: Capture, *, rank: int = 0) -> Int64[Tensor, " T"]:
    """For each row of the capture, its row in the feed; -1 where it has none."""
    rows = capture.ranks[rank]
    index = torch.full((len(rows.token_ids),), -1)
    if rows.feed_rows is not None:
        index[rows.feed_rows] = torch.arange(len(rows.feed_rows))
    return index
