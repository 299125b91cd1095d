"""Served slots, trained slots and the capture's own ladder, compared on the tokens that they share.

A slot is identified by the boundary whose centred features it is closest to, and only when that is beyond doubt: it
lies within half the distance from that boundary to the next nearest one, so no other boundary can be closer. (On unit
vectors, a mean cosine c is a distance of sqrt(2 - 2c).) Centred cosines do not see a constant factor or a constant
vector added; so the factor is measured, and what is left beside it must be small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.align import Pairing, align, feed_index
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Dump
from helpers.tensors.statistics import Comparison, compare, norms

# How much of a slot may be neither the tap nor a multiple of it. bf16 keeps 8 bits: 0.2% per value; kernels that add in
# another order, or fp8 weights, bring some percent at depth.
MAX_RESIDUE = 0.1


@dataclass(frozen=True)
class Match:
    """What a slot was found to be.

    ``boundary`` is None where no tap is beyond doubt; ``nearest`` and ``score`` (mean centred cosine) are given anyway.
    ``ratio`` is the slot's distance to the nearest tap, in distances from there to the next tap: up to 0.5 is certain.
    ``scale`` is the factor on the tap that comes closest, ``residue`` what remains of the slot beside it (0 to 1).
    """

    boundary: int | None
    nearest: int
    score: float
    ratio: float
    scale: float
    residue: float

    def evidence(self) -> dict[str, float | int]:
        """The figures, rounded for a reader."""
        figures = {"score": self.score, "ratio": self.ratio, "scale": self.scale, "residue": self.residue}
        return {"nearest_boundary": self.nearest, **{name: round(value, 6) for name, value in figures.items()}}


@dataclass(frozen=True)
class SlotComparison:
    """Statistics over the stack of served slots, trained slots and ladder, in this order.

    ``served_norms`` [N, K] and ``trained_norms`` [N, K'] are per token, at ``positions`` [N] of their texts; token 0 of
    each request is left out.
    """

    ladder: list[int]
    served_slots: int
    trained_slots: int
    statistics: Comparison
    positions: Int64[Tensor, " N"]
    served_norms: Float[Tensor, "N K"]
    trained_norms: Float[Tensor, "N L"]

    @property
    def tokens(self) -> int:
        return self.statistics.tokens

    @property
    def served_vs_ladder(self) -> Float[Tensor, "K B"]:
        return self.statistics.centred[: self.served_slots, self._ladder_at :]

    @property
    def trained_vs_ladder(self) -> Float[Tensor, "L B"]:
        return self.statistics.centred[self.served_slots : self._ladder_at, self._ladder_at :]

    @property
    def served_vs_trained(self) -> Float[Tensor, "K L"]:
        """The slot matrix."""
        return self.statistics.centred[: self.served_slots, self.served_slots : self._ladder_at]

    @cached_property
    def served(self) -> list[Match | None]:
        """What each served slot is; None without a ladder."""
        return [self._identify(slot) for slot in range(self.served_slots)]

    @cached_property
    def trained(self) -> list[Match | None]:
        """What each trained slot is; None without a ladder."""
        return [self._identify(self.served_slots + slot) for slot in range(self.trained_slots)]

    def same_as_trained(self, slot: int) -> int | None:
        """The trained slot that a served slot is beyond doubt, found without the ladder."""
        places = range(self.served_slots, self._ladder_at)
        match = identify(self.statistics, slot, places)
        if match is None or match.ratio > 0.5 or match.residue > MAX_RESIDUE:
            return None
        return match.nearest - self.served_slots

    @property
    def _ladder_at(self) -> int:
        return self.served_slots + self.trained_slots

    def _identify(self, feature: int) -> Match | None:
        match = identify(self.statistics, feature, range(self._ladder_at, self._ladder_at + len(self.ladder)))
        if match is None:
            return None
        nearest = self.ladder[match.nearest - self._ladder_at]
        certain = match.ratio <= 0.5 and match.residue <= MAX_RESIDUE
        return Match(nearest if certain else None, nearest, match.score, match.ratio, match.scale, match.residue)


def identify(statistics: Comparison, feature: int, places: Sequence[int]) -> Match | None:
    """The nearest of some features of the stack, by centred cosine; None with fewer than two to tell apart."""
    if len(places) < 2:
        return None
    cosine = statistics.centred[feature, list(places)]
    nearest = places[int(cosine.argmax())]
    others = [place for place in places if place != nearest]
    gap = float(distance(statistics.centred[nearest, others]).min())
    far = float(distance(cosine.max()))
    dot = statistics.dot
    explained = dot[feature, nearest] ** 2 / (dot[feature, feature] * dot[nearest, nearest]).clamp(min=1e-300)
    return Match(
        boundary=None,
        nearest=nearest,
        score=float(cosine.max()),
        ratio=far / gap if gap > 0 else float("inf"),
        scale=statistics.scale(feature, nearest),
        residue=float((1 - explained).clamp(min=0).sqrt()),
    )


def distance(cosine: Tensor) -> Tensor:
    """Distance of unit vectors from their cosine."""
    return (2 - 2 * cosine).clamp(min=0).sqrt()


@dataclass(frozen=True)
class Aligned:
    """The pairings of a capture with a dump, cut to the rows that can be compared, and what was cut for its values."""

    pairings: list[Pairing]
    matched_tokens: int
    non_finite: dict[str, int]


def align_features(capture: Capture, dump: Dump) -> Aligned:
    """Pair the rows, drop token 0 of each request (a sink of its own kind), rows without feed and non-finite ones."""
    rank = capture.ranks[0]
    feed = feed_index(capture)
    usable = {"feed": torch.ones(len(rank.token_ids), dtype=torch.bool)}
    if capture.slots:
        finite = torch.isfinite(rank.tensor("feed")).all(dim=1)
        has_feed = feed >= 0
        usable["feed"] = has_feed.clone()
        usable["feed"][has_feed] = finite[feed[has_feed]]
    counts = {"feed": int((~finite).sum())} if capture.slots else {}
    for boundary in rank.boundaries:
        name = f"boundary.{boundary:03d}"
        usable[name] = torch.isfinite(rank.tensor(name)).all(dim=1)
        counts[name] = int((~usable[name]).sum())
    good = torch.stack(list(usable.values())).all(dim=0)
    pairings, matched = [], 0
    for pairing in align(capture, dump):
        finite_sample = torch.isfinite(pairing.sample.slots).flatten(1).all(dim=1)
        counts["trained"] = counts.get("trained", 0) + int((~finite_sample).sum())
        matched += len(pairing)
        keep = good[pairing.served] & (pairing.trained > 0) & finite_sample[pairing.trained]
        if keep.any():
            pairings.append(pairing.where(keep))
    return Aligned(pairings, matched, {name: count for name, count in counts.items() if count})


def compare_features(capture: Capture, dump: Dump, aligned: Aligned | None = None) -> SlotComparison:
    """Compare what was served with what was trained on the rows that they share.

    Raises:
        UsageError: ``WB-ALIGN-NOTHING`` where they share none.
        UsageError: ``WB-DUMP-HIDDEN`` where the two are of other hidden sizes.
    """
    hidden = capture.info.model.hidden_size
    if dump.hidden_size != hidden:
        raise UsageError(
            "WB-DUMP-HIDDEN",
            f"{dump.path} holds features of width {dump.hidden_size}, the captured model has {hidden}",
            expected="a dump of the model that was captured",
            next=f"workbook inspect {dump.path}",
        )
    aligned = align_features(capture, dump) if aligned is None else aligned
    if not aligned.pairings:
        raise UsageError(
            "WB-ALIGN-NOTHING",
            f"{capture.path} and {dump.path} share no tokens that can be compared",
            expected="requests that start as the dump's samples do, with a feed",
            next=f"workbook capture BOX RUN --replay {dump.path}",
        )
    pairings = aligned.pairings
    rank, feed = capture.ranks[0], feed_index(capture)
    slots = capture.slots or 0

    def batches() -> Iterator[Tensor]:
        for pairing in pairings:
            parts = []
            if slots:
                parts.append(rank.rows("feed", feed[pairing.served]).view(-1, slots, hidden).float())
            parts.append(pairing.sample.slots[pairing.trained].float())
            taps = [rank.rows(f"boundary.{b:03d}", pairing.served).float() for b in rank.boundaries]
            yield torch.cat([*parts, *(tap.unsqueeze(1) for tap in taps)], dim=1)

    lengths = torch.cat([norms(stack[:, : slots + dump.slots]) for stack in batches()])
    positions = torch.cat([pairing.trained for pairing in pairings])
    return SlotComparison(
        rank.boundaries, slots, dump.slots, compare(batches), positions, lengths[:, :slots], lengths[:, slots:]
    )
