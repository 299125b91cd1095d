"""Which wiring was this drafter trained with? All that the ladder allows, ranked by step-1 cross-entropy.

Acceptance alone does not find it: neighbouring taps are too alike, and a round ends at its first mistake. The
drafter's whole distribution against the target's tells them apart by hundredths of a nat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from math import comb, perm

from pydantic import BaseModel, ConfigDict

from helpers.errors import UsageError
from helpers.wiring.drafter import Drafter, Target
from helpers.wiring.replay.attribution import attribute
from helpers.wiring.replay.entropy import Entropies
from helpers.wiring.replay.judge import Judge
from helpers.wiring.replay.result import RequestScore, entropy_difference, summarise
from helpers.wiring.replay.run import score
from helpers.wiring.replay.taps import Source, boundaries

# Wirings that are replayed on all rows, rounds and all.
FINALISTS = 8
# What the ranking may take of the time limit; the rest is the finalists'.
RANKING_SHARE = 0.6
Taps = tuple[int, ...]


class Ranked(BaseModel):
    """One wiring of the ranking's top, replayed on all rows.

    Attributes:
        difference: its cross-entropy minus the first's, in nats; paired 95% interval over requests. An interval that
            reaches 0 says that the two do not differ by more than chance.
        reachable: taps ascend, as servers append them; other orders need another fc.
    """

    model_config = ConfigDict(frozen=True)

    taps: list[int]
    cross_entropy: float
    difference: float
    ci95: tuple[float, float]
    within_chance: bool
    accept_rate: float
    accept_ci95: tuple[float, float]
    accept_length: float
    reachable: bool


class Search(BaseModel):
    """A search's outcome.

    Attributes:
        ranking: the best, in order of cross-entropy on all rows.
        scores: cross-entropy of every wiring that was tried, on the sample of `sample_rows` rows, best first.
        candidates: how many ascending wirings the ladder allows, and tried: how many of them were.
        other_orders_tried: wirings out of order that were tried as well, of `other_orders`.
        not_tried: in words, what was left out and why; None where nothing was.
    """

    model_config = ConfigDict(frozen=True)

    ranking: list[Ranked]
    scores: list[tuple[list[int], float]]
    candidates: int
    tried: int
    other_orders: int
    other_orders_tried: int
    sample_rows: int
    sample_requests: int
    seconds: float
    not_tried: str | None

    @property
    def best(self) -> list[int]:
        return self.ranking[0].taps


def search(
    drafter: Drafter,
    target: Target,
    source: Source,
    *,
    start: Sequence[int] | None = None,
    steps: int = 3,
    new_tokens: int | None = None,
    limit_s: float = 60.0,
    each: Callable[[str], None] = lambda _: None,
) -> Search:
    """Rank the wirings that a captured ladder allows.

    First one slot at a time is moved from `start` to its best boundary until nothing improves, the slot that brings the
    most into fc before the others; what each boundary costs in each slot there predicts all other wirings, which are
    tried in that order: those that a server can reach (ascending taps) first, then other orders as far as a quarter of
    the ranking's time allows.

    Args:
        start: boundaries to begin with: those that a dump was captured at, where that is known (`trained_boundaries`).

    Raises:
        UsageError: ``WB-REPLAY-LADDER`` without a ladder, or without the target's last state in the capture.
    """
    began = time.monotonic()
    ladder, slots = source.rank.boundaries, drafter.slots
    judged = Entropies.prepare(drafter, target, source) if len(ladder) > slots else None
    if judged is None:
        raise UsageError(
            "WB-REPLAY-LADDER",
            f"{source.capture.path} holds boundaries {ladder}: not enough to search",
            expected=f"more than {slots} boundaries, and the target's last state (boundary n, or its final norm)",
            next="workbook capture BOX RUN --prompts FILE --boundaries all",
        )

    def left(share: float) -> bool:
        return time.monotonic() - began < limit_s * share

    found: dict[Taps, float] = {}

    def cost(taps: Taps) -> float:
        if taps not in found:
            found[taps] = judged.of(taps)
        return found[taps]

    spread = [ladder[(2 * slot + 1) * len(ladder) // (2 * slots)] for slot in range(slots)]
    first = tuple(start) if start is not None and len(start) == slots and set(start) <= set(ladder) else tuple(spread)
    each("one slot at a time")
    cost(first)
    shares = attribute(drafter, source, boundaries(first))
    order = sorted(range(slots), key=lambda slot: -shares[slot].share)
    centre = descend(first, order, ladder, cost, lambda: left(RANKING_SHARE))
    near = predictions(centre, ladder, found)
    rest = sorted((t for t in combinations(ladder, slots) if t not in found), key=near)
    for number, taps in enumerate(rest):
        if not left(RANKING_SHARE):
            break
        each(f"wiring {number + 1} of {len(rest)}")
        cost(taps)
    until = time.monotonic() - began
    for taps in other_orders(found, slots):
        if not left(RANKING_SHARE) or time.monotonic() - began > 1.25 * until:
            break
        cost(taps)
    ordered = sorted(found, key=lambda taps: found[taps])
    ranking = replay_best(drafter, target, source, ordered[:FINALISTS], steps, new_tokens, each, lambda: left(1.0))
    ascending = sum(is_ascending(taps) for taps in found)
    candidates = comb(len(ladder), slots)
    missed = candidates - ascending
    return Search(
        ranking=ranking,
        scores=[(list(taps), found[taps]) for taps in ordered],
        candidates=candidates,
        tried=ascending,
        other_orders=perm(len(ladder), slots) - candidates,
        other_orders_tried=len(found) - ascending,
        sample_rows=judged.rows,
        sample_requests=judged.requests,
        seconds=time.monotonic() - began,
        not_tried=None
        if missed == 0
        else f"{missed} of {candidates} ascending wirings, those predicted worst: of the {limit_s:g} s that a search "
        f"may take, {RANKING_SHARE:.0%} are for trying them, the rest for judging the best on all rows",
    )


def is_ascending(taps: Taps) -> bool:
    return all(a < b for a, b in pairwise(taps))


def descend(
    start: Taps,
    order: Sequence[int],
    ladder: Sequence[int],
    cost: Callable[[Taps], float],
    go_on: Callable[[], bool],
) -> Taps:
    """Move one slot at a time, in this order, to its best boundary until no move helps.

    Boundaries may cross, but not meet.
    """
    best = start
    while True:
        before = best
        for slot in order:
            moves = [(*best[:slot], b, *best[slot + 1 :]) for b in ladder if b not in best or b == best[slot]]
            if not go_on():
                return best
            best = min(moves, key=cost)
        if best == before:
            return best


def predictions(centre: Taps, ladder: Sequence[int], found: dict[Taps, float]) -> Callable[[Taps], float]:
    """A guess at any wiring's cost: what each of its boundaries costs alone, the other slots at the centre."""
    worst = max(found.values())
    alone = {
        (slot, b): found.get((*centre[:slot], b, *centre[slot + 1 :]), worst)
        for slot in range(len(centre))
        for b in ladder
    }
    return lambda taps: sum(alone[slot, b] for slot, b in enumerate(taps))


def other_orders(found: dict[Taps, float], slots: int) -> Iterator[Taps]:
    """The same taps in other orders, the best wirings' first."""
    for taps in sorted(found, key=lambda taps: found[taps]):
        yield from (other for other in permutations(taps, slots) if other not in found)


def replay_best(
    drafter: Drafter,
    target: Target,
    source: Source,
    finalists: Sequence[Taps],
    steps: int,
    new_tokens: int | None,
    each: Callable[[str], None],
    go_on: Callable[[], bool],
) -> list[Ranked]:
    """Replay the finalists on all rows, and rank them again."""
    judge = Judge(source, target, drafter.to_target)
    scored: list[tuple[Taps, list[RequestScore]]] = []
    for number, taps in enumerate(finalists):
        if scored and not go_on():
            break
        each(f"replaying {number + 1} of {len(finalists)} finalists")
        wiring = boundaries(taps)
        scored.append((taps, score(drafter, target, source, wiring, steps=steps, new_tokens=new_tokens, judge=judge)))
    summaries = {taps: summarise(list(taps), steps, scores) for taps, scores in scored}
    scored.sort(key=lambda pair: summaries[pair[0]].cross_entropy or 0.0)
    ranking = []
    for taps, scores in scored:
        difference = entropy_difference(scores, scored[0][1])
        summary = summaries[taps]
        assert difference is not None
        assert summary.cross_entropy is not None
        ranking.append(
            Ranked(
                taps=list(taps),
                cross_entropy=summary.cross_entropy,
                difference=difference[0],
                ci95=difference[1],
                within_chance=difference[1][0] <= 0,
                accept_rate=summary.accept_rate,
                accept_ci95=summary.ci95,
                accept_length=summary.accept_length,
                reachable=is_ascending(taps),
            )
        )
    return ranking
