"""Whether the drafter's fc wants its blocks in another order than they are fed, told by step-1 cross-entropy.

A feed can be what training captured and still meet the wrong columns: a checkpoint was converted, or its trainer put
the slots side by side in another order than its dump. No comparison of hidden states shows that; the drafter itself
does: put into the order that it was trained with, the same feed makes it agree with the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import comb, factorial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from helpers.acceptance.intervals import ENOUGH, paired_difference
from helpers.errors import UsageError
from helpers.tensors.capture import Capture
from helpers.wiring.drafter import Drafter, Target, chain, load_drafter, load_target
from helpers.wiring.findings import Finding, error
from helpers.wiring.replay.judge import FIRST, Judge, cross_entropy
from helpers.wiring.replay.taps import Source, Text

# Rows that are judged, and requests that they are spread over; a shorter start of a request is not worth a unit.
ROWS, REQUESTS, SHORT = 3072, 48, 8
# 5! orders take a minute where 6! would take six; no drafter with more than five taps is known.
MAX_SLOTS = 5
TOGETHER = 16  # texts a batch
CHANCE = 0.05
# The least that counts: of what the best order gains from the feed, what the order that is fed loses of it (on the lab
# 11% for the two early slots, which are the most alike); and of the cross-entropy, what is gained at all (on the lab
# 45%, and 1% by a drafter whose fc was never trained).
SHARE = 0.05

Order = tuple[int, ...]


@dataclass(frozen=True)
class FcOrder:
    """Every order of a feed's blocks, judged on the same rows.

    Attributes:
        order: block i of fc wants slot ``order[i]`` of the feed; ascending where it wants them as they are fed.
        cross_entropy: nats a row, by order.
        other_rows: that of the best order with the feed of other tokens; constant: that of the target's mean
            distribution, whatever the token. A drafter that was trained for an order is better than both in it.
        difference, ci95: as fed minus in the best order, paired by request.
        wins: in how many of the requests the best order has a lower cross-entropy than the one that is fed.
        gain, gain_ci95: the lower one of ``other_rows`` and ``constant``, minus in the best order.
    """

    order: Order
    cross_entropy: dict[Order, float]
    other_rows: float
    constant: float
    difference: float
    ci95: tuple[float, float]
    gain: float
    gain_ci95: tuple[float, float]
    rows: int
    requests: int
    wins: int

    @property
    def chance(self) -> float:
        """How easily one of the other orders would win so many requests were all alike: a sign test for each of them.

        The pooled difference may be that of one long text; and its interval is of the best of several orders, so it is
        of a winner by choice.
        """
        return min(1.0, (len(self.cross_entropy) - 1) * sign_test(self.wins, self.requests))

    @property
    def as_fed(self) -> bool:
        return list(self.order) == sorted(self.order)

    @property
    def uses_feed(self) -> bool:
        """Whether the drafter gains from the feed in its best order, beyond chance: an untrained one does not."""
        return self.gain_ci95[0] > 0 and self.gain > SHARE * self.cross_entropy[self.order]

    @property
    def within_chance(self) -> bool:
        """Whether the best order beats the one that is fed by no more than chance, or by next to nothing.

        Beyond chance it is in the pooled rows and request by request, of as many requests as an interval takes.

        A wrong order can be better by a little because it makes the drafter less sure of itself.
        """
        few = self.requests < ENOUGH or self.chance > CHANCE
        return few or self.ci95[0] <= 0 or self.difference < SHARE * self.gain

    def evidence(self) -> dict[str, Any]:
        """The figures, rounded for a reader."""
        return {
            "order": list(self.order),
            "cross_entropy": [
                {"order": list(order), "nats": round(value, 6)}
                for order, value in sorted(self.cross_entropy.items(), key=lambda one: one[1])
            ],
            "cross_entropy_of_other_tokens": round(self.other_rows, 6),
            "cross_entropy_of_a_constant": round(self.constant, 6),
            "difference": round(self.difference, 6),
            "ci95": [round(bound, 6) for bound in self.ci95],
            "rows": self.rows,
            "requests": self.requests,
            "requests_won": self.wins,
            "sign_test": round(self.chance, 6),
        }


def requests_needed(slots: int) -> int:
    """From how many requests on it is no chance that one of the other orders is the best in each of them.

    No fewer than an interval takes: below, the bootstrap's is too narrow.

    >>> requests_needed(2), requests_needed(3), requests_needed(4)
    (8, 8, 9)
    """
    count = ENOUGH
    while (factorial(slots) - 1) * sign_test(count, count) > CHANCE:
        count += 1
    return count


def sign_test(wins: int, requests: int) -> float:
    """How probable so many wins or more are where each request is a coin's throw.

    >>> sign_test(8, 8) == 1 / 256, sign_test(0, 8), round(sign_test(7, 8), 4)
    (True, 1.0, 0.0352)
    """
    ways = sum(comb(requests, won) for won in range(wins, requests + 1))
    return float(ways / 2**requests)


def judge_orders(drafter: Drafter, target: Target, source: Source) -> FcOrder | str:
    """Judge all K! orders of what the server fed; why they cannot be judged, in words, where they cannot."""
    slots = source.capture.slots
    if slots is None or slots != drafter.slots or slots > MAX_SLOTS:
        return f"{slots or 'no'} slots are fed and fc takes {drafter.slots}; up to {MAX_SLOTS} can be tried"
    judge = Judge(source, target, drafter.to_target)
    if not judge.able:
        return "the capture holds the target's last state neither before nor after its final norm"
    texts = usable_texts(source)
    if len(texts) < requests_needed(slots):
        return (
            f"{len(texts)} requests were fed from their first token on; with fewer than {requests_needed(slots)}"
            f" one of {factorial(slots) - 1} other orders may be the best by chance"
        )
    orders = list(permutations(range(slots)))
    wanted = [judge.wanted(text, length + 1) for text, length in texts]
    rows = [float(length - FIRST) for _, length in texts]
    feeds = [source.rank.rows("feed", source.feed_rows[text.rows[:n]]).view(n, slots, -1) for text, n in texts]
    tokens = [text.tokens[1 : length + 1] for text, length in texts]
    sums = {order: entropies(drafter, tokens, [feed[:, list(order)] for feed in feeds], wanted) for order in orders}
    best = min(orders, key=lambda order: sum(sums[order]))
    # Half a text on: states of the same kind, of other tokens.
    others = [feed[:, list(best)].roll(len(feed) // 2, dims=0) for feed in feeds]
    moved = entropies(drafter, tokens, others, wanted)
    difference, interval = paired_difference((sums[orders[0]], rows), (sums[best], rows))
    # The target's mean distribution; what it wants outside the drafter's vocabulary is nobody's.
    mean = torch.cat(wanted).double().mean(dim=0)
    said = (mean / mean.sum()).clamp(min=1e-30).log().float()
    constant = [cross_entropy(want, said.expand(len(want), -1)) for want in wanted]
    gain, gain_interval = paired_difference((min(moved, constant, key=sum), rows), (sums[best], rows))
    return FcOrder(
        order=best,
        cross_entropy={order: sum(values) / sum(rows) for order, values in sums.items()},
        other_rows=sum(moved) / sum(rows),
        constant=sum(constant) / sum(rows),
        difference=difference,
        ci95=interval,
        gain=gain,
        gain_ci95=gain_interval,
        rows=int(sum(rows)),
        requests=len(texts),
        wins=sum(best_of < fed for best_of, fed in zip(sums[best], sums[orders[0]], strict=True)),
    )


@torch.no_grad()
def entropies(
    drafter: Drafter, tokens: Sequence[Tensor], feeds: Sequence[Tensor], wanted: Sequence[Tensor]
) -> list[float]:
    """Sums of step-1 cross-entropy over the rows FIRST and on of some texts.

    Args:
        tokens: [T] of each text: the token after each row. feeds: [T, K, H]. wanted: [T - FIRST, D] (`Judge.wanted`).
    """
    found = []
    for start in range(0, len(tokens), TOGETHER):
        part = slice(start, start + TOGETHER)
        state = drafter.fuse(pad_sequence([feed.flatten(1) for feed in feeds[part]], batch_first=True))
        logits = next(chain(drafter, pad_sequence(list(tokens[part]), batch_first=True), state, 1)).logits
        for place, want in enumerate(wanted[part]):
            found.append(cross_entropy(want, logits[place, FIRST : FIRST + len(want)]))
    return found


def usable_texts(source: Source) -> list[tuple[Text, int]]:
    """Requests with how many of their first rows have a feed and a next token, spread over the capture."""
    found = []
    for request in source.capture.info.requests:
        rows = slice(request.start, request.start + request.length)
        if not torch.equal(source.rank.positions[rows], torch.arange(request.length)):
            continue  # a prefix cache spared its first rows: the drafter attended to what was not captured
        text = Text(request.id, source.rank.token_ids[rows], request.start, request.prompt_tokens)
        fed = int((source.feed_rows[text.rows] >= 0).long().cumprod(0).sum())
        found.append((text, min(fed, len(text) - 1)))
    found = [(text, length) for text, length in found if length >= SHORT]
    count = min(len(found), REQUESTS)
    most = max(ROWS // max(count, 1), SHORT)
    chosen = [found[place * len(found) // count] for place in range(count)]
    return [(text, min(length, most)) for text, length in chosen]


def look_at_order(capture: Capture, draft: Path, target: Path) -> FcOrder | str:
    """Judge the orders for a drafter's folder; why not, where drafter or target cannot be computed here."""
    source = Source(capture)
    try:
        lender = load_target(target)
        drafter = load_drafter(draft, lender, dtype=source.dtype)
        source.check(source.served(), drafter)
    except UsageError as found:
        return f"{found.code}: {found.message}"
    return judge_orders(drafter, lender, source)


def with_order(match: Finding, found: FcOrder | str) -> Finding:
    """``features-match``, which says so where fc's order was judged as well, and is the one that is fed."""
    if isinstance(found, str) or not found.as_fed or not found.uses_feed:
        return match
    summary = (
        f"{match.summary}. The drafter's fc wants them in this order, too: of {len(found.cross_entropy)} it has the "
        f"lowest step-1 cross-entropy ({found.rows} rows of {found.requests} requests)"
    )
    return match.model_copy(update={"summary": summary, "evidence": {**match.evidence, "fc_order": found.evidence()}})


def fc_order(found: FcOrder | str) -> list[Finding]:
    """The finding, where another order than the one that is fed is the best beyond chance."""
    if isinstance(found, str) or found.as_fed or found.within_chance or not found.uses_feed:
        return []
    order = list(found.order)
    summary = (
        f"the feed is right, but block i of the drafter's fc wants slot {order}[i]: step-1 cross-entropy is "
        f"{found.difference:.3f} nats [{found.ci95[0]:.3f}, {found.ci95[1]:.3f}] lower in that order "
        f"({found.rows} rows of {found.requests} requests, in {found.wins} of which it is lower)"
    )
    return [error("fc-order", None, summary, **found.evidence())]


def undecided(found: FcOrder | str) -> str | None:
    """Why nothing is said about the order; None where something is known."""
    if isinstance(found, str):
        return found
    if not found.uses_feed:
        return "the drafter makes no use of its feed in any order, as far as these requests tell"
    if not found.as_fed and found.within_chance:
        low, high = found.ci95
        return (
            f"the order {list(found.order)} is better by {found.difference:.4f} nats [{low:.4f}, {high:.4f}], "
            f"which is too little, or not beyond chance, with {found.requests} requests, in {found.wins} of which it "
            "is better"
        )
    return None


def mended(order: Sequence[int]) -> list[int]:
    """Which of fc's blocks belongs where: block ``mended[j]`` is to stand in place j.

    >>> mended([2, 0, 1])
    [1, 2, 0]
    """
    return [list(order).index(slot) for slot in range(len(order))]
