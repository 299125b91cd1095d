"""Which captured rows are the text that was really produced, and whose they are. Pure: numbers in, numbers out.

A forward pass holds one segment per request: a stretch of a prompt (chunked or not), one decoded token, or the drafts
of a verify pass, of which the engine keeps a part. The engine's passes name no requests (SGLang 0.5.9's ForwardBatch
has no ids), only slots of its request pool, which a request keeps until it ends and which the next one then gets. So
segments are first chained by slot and position, and then each chain is given to the request whose final text it spells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Text:
    """A request's final text: prompt and output token ids."""

    id: str
    tokens: tuple[int, ...]
    prompt_tokens: int


@dataclass(frozen=True)
class Segment:
    """One request's rows in one target pass: rows `first_row` and on of the pass that is number `step` in time.

    ``parents`` is None except in a verify pass: there, per row, the row (in the segment) whose continuation it is; -1
    for the root, which is a token that was already verified.
    """

    step: int
    pool: int
    first_row: int
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    parents: tuple[int, ...] | None = None
    prefill: bool = False

    @property
    def start(self) -> int:
        return self.positions[0]


@dataclass
class Chain:
    """Segments of one request, in time. Its next segment starts at a position in ``[low, high]``."""

    segments: list[Segment] = field(default_factory=list)
    low: int = 0
    high: int = 0
    decoded: bool = False

    def takes(self, segment: Segment) -> bool:
        if segment.prefill and len(segment.tokens) > 1 and self.decoded:
            return False  # a new request in the same slot, or the same one after a retraction
        return self.low <= segment.start <= self.high

    def add(self, segment: Segment) -> None:
        self.segments.append(segment)
        if segment.parents is None:
            self.low = self.high = segment.positions[-1] + 1
        else:  # how far the verify pass was accepted shows only in where the next one starts
            self.low, self.high = segment.start + 1, max(segment.positions) + 1
        self.decoded = self.decoded or not segment.prefill


@dataclass(frozen=True)
class Row:
    """A row to keep: `row` of pass `step` is the token at `position` of request number `request`."""

    request: int
    position: int
    step: int
    row: int


@dataclass(frozen=True)
class Plan:
    """Rows in the order of the capture (request, then position), and how many were rejected or nobody's."""

    rows: list[Row]
    rejected: int
    foreign: int


def parents_of_tree(next_token: Sequence[int], next_sibling: Sequence[int]) -> tuple[int, ...]:
    """Parent of each row of a draft tree, from the engine's first-child and next-sibling links (-1: none)."""
    parents = [-1] * len(next_token)
    for node, child in enumerate(next_token):
        seen = 0
        while child != -1 and seen < len(parents):
            parents[child] = node
            child = next_sibling[child]
            seen += 1
    return tuple(parents)


def chain_up(segments: Iterable[Segment]) -> list[Chain]:
    """Put the segments of all passes, in time, into one chain per request."""
    chains: list[Chain] = []
    current: dict[int, Chain] = {}
    for segment in segments:
        chain = current.get(segment.pool)
        if chain is None or not chain.takes(segment):
            chain = Chain()
            chains.append(chain)
        chain.add(segment)
        current[segment.pool] = chain
    return chains


def accepted(segment: Segment, tokens: Sequence[int]) -> list[int]:
    """Rows of a segment (numbers in the segment) that stand in the final text, with all that they continue."""
    good: list[int] = []
    kept: set[int] = set()
    for row, (token, position) in enumerate(zip(segment.tokens, segment.positions, strict=True)):
        if position >= len(tokens) or tokens[position] != token:
            continue
        if segment.parents is not None and row > 0 and segment.parents[row] not in kept:
            continue
        kept.add(row)
        good.append(row)
    return good


def spells(chain: Chain, tokens: Sequence[int]) -> bool:
    """Whether every row of the chain that was certain when it ran (all but drafts) stands in the text."""
    for segment in chain.segments:
        certain = 1 if segment.parents is not None else len(segment.tokens)
        for token, position in zip(segment.tokens[:certain], segment.positions[:certain], strict=True):
            if position < len(tokens) and tokens[position] != token:
                return False
    return chain.segments[0].start < len(tokens)


def plan(segments: Iterable[Segment], texts: Sequence[Text]) -> Plan:
    """Choose the rows of a capture from all rows that passed the hook."""
    chains = chain_up(segments)
    fits = [[i for i, text in enumerate(texts) if spells(chain, text.tokens)] for chain in chains]
    rows: dict[tuple[int, int], Row] = {}
    rejected = foreign = 0
    taken: set[int] = set()
    for chain, candidates in sorted(zip(chains, fits, strict=True), key=lambda pair: len(pair[1])):
        if not candidates:
            foreign += sum(len(s.tokens) for s in chain.segments)
            continue
        # Two requests with one text: each gets a chain of its own. A second chain of one request is a retraction.
        request = next((i for i in candidates if i not in taken), candidates[0])
        taken.add(request)
        for segment in chain.segments:
            good = accepted(segment, texts[request].tokens)
            rejected += len(segment.tokens) - len(good)
            for row in good:
                place = (request, segment.positions[row])
                rows.setdefault(place, Row(*place, segment.step, segment.first_row + row))
    return Plan([rows[place] for place in sorted(rows)], rejected, foreign)
