"""Served slots, trained slots and the capture's own ladder, compared on the tokens that they share.

A slot is identified by the boundary whose centred features it is closest to, and only when that is beyond doubt: it
lies within half the distance from that boundary to the next nearest one, so no other boundary can be closer. (On unit
vectors, a mean cosine c is a distance of sqrt(2 - 2c).) Where the ladder has gaps, a boundary in a gap could be closer
still; then a slot has to be the tap itself, as far as rounding goes. Centred cosines do not see a constant factor or a
constant vector added; so the factor is measured, and what is left beside it must be small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float, Int64
from torch import Tensor

from helpers.tensors.statistics import Comparison

# How much of a slot may be neither the tap nor a multiple of it. bf16 keeps 8 bits: 0.2% per value; kernels that add in
# another order, or fp8 weights, bring some percent at depth.
MAX_RESIDUE = 0.1
# A tap against itself in bf16 scores above .999; the nearest neighbours that were ever measured here, .98.
SAME = 0.998


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

    @property
    def close(self) -> bool:
        """Nearer than half way to any other that it was held against."""
        return self.ratio <= 0.5 and self.residue <= MAX_RESIDUE

    @property
    def same(self) -> bool:
        """The thing itself, so that nothing between it and the next can be meant."""
        return self.close and self.score >= SAME

    def evidence(self) -> dict[str, float | int]:
        """The figures, rounded for a reader."""
        figures = {"score": self.score, "ratio": self.ratio, "scale": self.scale, "residue": self.residue}
        return {"nearest_boundary": self.nearest, **{name: round(value, 6) for name, value in figures.items()}}


@dataclass(frozen=True)
class SlotComparison:
    """Statistics over the stack of served slots, trained slots, ladder and true taps of ``reduced``, in this order.

    ``served_norms`` [N, K] and ``trained_norms`` [N, K'] are per token, at ``positions`` [N] of their texts; token 0 of
    each request is left out. ``complete``: the ladder has every boundary. ``reduced`` are the boundaries that the ranks
    hold as partial sums, and that could be put together for the trained side.
    """

    ladder: list[int]
    served_slots: int
    trained_slots: int
    statistics: Comparison
    positions: Int64[Tensor, " N"]
    served_norms: Float[Tensor, "N K"]
    trained_norms: Float[Tensor, "N L"]
    complete: bool = True
    reduced: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        return self.statistics.tokens

    @property
    def served_vs_ladder(self) -> Float[Tensor, "K B"]:
        return self.statistics.centred[: self.served_slots, self._raw]

    @property
    def trained_vs_ladder(self) -> Float[Tensor, "L B"]:
        return self.statistics.centred[self.served_slots : self._ladder_at, self._true]

    @property
    def served_vs_trained(self) -> Float[Tensor, "K L"]:
        """The slot matrix."""
        return self.statistics.centred[: self.served_slots, self.served_slots : self._ladder_at]

    @cached_property
    def served(self) -> list[Match | None]:
        """What each served slot is; None without a ladder."""
        return [self._identify(slot, self._raw) for slot in range(self.served_slots)]

    @cached_property
    def trained(self) -> list[Match | None]:
        """What each trained slot is; None without a ladder."""
        return [self._identify(self.served_slots + slot, self._true) for slot in range(self.trained_slots)]

    def same_as_trained(self, slot: int) -> int | None:
        """The trained slot that a served slot is beyond doubt, found without the ladder."""
        places = list(range(self.served_slots, self._ladder_at))
        match = identify(self.statistics, slot, places)
        return match.nearest - self.served_slots if match is not None and match.same else None

    def trained_against(self, boundary: int) -> dict[str, float]:
        """The best score of a trained slot with a boundary as rank 0 holds it, and as put together from all ranks."""
        place = self.ladder.index(boundary)
        trained = self.statistics.centred[self.served_slots : self._ladder_at]
        pairs = {"rank_0": self._raw[place], "residual_plus_sum_of_outs": self._true[place]}
        return {name: round(float(trained[:, at].max()), 6) for name, at in pairs.items()}

    @property
    def _ladder_at(self) -> int:
        return self.served_slots + self.trained_slots

    @property
    def _raw(self) -> list[int]:
        return list(range(self._ladder_at, self._ladder_at + len(self.ladder)))

    @property
    def _true(self) -> list[int]:
        after = self._ladder_at + len(self.ladder)
        return [
            after + self.reduced.index(boundary) if boundary in self.reduced else place
            for place, boundary in zip(self._raw, self.ladder, strict=True)
        ]

    def _identify(self, feature: int, places: list[int]) -> Match | None:
        match = identify(self.statistics, feature, places)
        if match is None:
            return None
        nearest = self.ladder[places.index(match.nearest)]
        certain = match.close if self.complete else match.same
        return Match(nearest if certain else None, nearest, match.score, match.ratio, match.scale, match.residue)


def identify(statistics: Comparison, feature: int, places: Sequence[int]) -> Match | None:
    """The nearest of some features of the stack, by centred cosine; one alone has no rival (ratio 0)."""
    if not places:
        return None
    cosine = statistics.centred[feature, list(places)]
    nearest = places[int(cosine.argmax())]
    others = [place for place in places if place != nearest]
    far = float(distance(cosine.max()))
    gap = float(distance(statistics.centred[nearest, others]).min()) if others else float("inf")
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
