"""What a slot is that is no tap as it stands: a tap of another row, a layer's own output, a normed or a rotated tap.

Tried on up to `Aligned.tried` tokens, for slots in doubt only. A kind is named when it explains the slot beyond doubt:
little is left of the slot beside it, and the next best candidate leaves at least twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.tensors.dumps import Dump
from helpers.tensors.statistics import SHIFTS, agreed_factor, centre, gram_error, norm_spread, unit
from helpers.wiring.checkpoint import Target
from helpers.wiring.comparison import MAX_RESIDUE, SAME
from helpers.wiring.features import EDGE, FEW, Aligned, stretches

# Differences of boundaries carry the rounding of two large numbers; they are nearly orthogonal, so more may be left.
MAX_OWN_RESIDUE = 0.3
MAX_GRAM = 0.05
MAX_NORM_SPREAD = 0.02
# A constant factor below this is what rounding and another engine's kernels do.
MAX_SCALE_OFF = 0.005

Kind = Literal["plain", "own-output", "normed", "rotated", "unknown"]
# A boundary's number, or ("slot", j) for a trained slot that is known only as itself; None where nothing is known.
Label = int | tuple[str, int] | None
Read = Callable[[int], Float[Tensor, "N H"]]  # the rows at a shift


@dataclass(frozen=True)
class Reading:
    """What a slot is: ``kind`` of ``label``, ``shift`` rows on, times ``scale``."""

    label: Label
    kind: Kind = "plain"
    shift: int = 0
    scale: float = 1.0
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """How close x is to a candidate: mean centred cosine, the factor, what is left beside it."""

    score: float
    scale: float
    residue: float

    @property
    def distance(self) -> float:
        return math.sqrt(max(0.0, 2 - 2 * self.score))


NOTHING = Measured(-1.0, 0.0, 1.0)


@dataclass(frozen=True)
class Bench:
    """Stretches of consecutive aligned rows, on which slots in doubt are tried."""

    aligned: Aligned
    dump: Dump

    @cached_property
    def runs(self) -> list[tuple[int, Tensor, Tensor]]:
        """(pairing, served rows, trained rows) of stretches longer than the two edges."""
        return stretches(self.aligned)

    @property
    def tokens(self) -> int:
        return sum(len(rows) - 2 * EDGE for _, rows, _ in self.runs)

    def reader(self, load: Callable[[int, Tensor, Tensor], Tensor]) -> Read:
        """A candidate that is loaded once, and read at any shift."""
        parts: list[Tensor] = []

        def read(shift: int) -> Tensor:
            if not parts:
                parts.extend(load(*run).float() for run in self.runs)
            return torch.cat([part[EDGE + shift : len(part) - EDGE + shift] for part in parts])

        return read

    def served(self, slot: int) -> Read:
        view = self.aligned.view
        out = self.aligned.left_out.get("served", torch.empty(0, dtype=torch.long))

        def load(_: int, rows: Tensor, __: Tensor) -> Tensor:
            x = view.rows("feed", rows).view(len(rows), -1, view.hidden)[:, slot].float()
            return x.masked_fill(torch.isin(rows, out).unsqueeze(1), float("nan"))

        return self.reader(load)

    def trained(self, slot: int) -> Read:
        return self.reader(lambda n, _, rows: self.aligned.pairings[n].sample.rows(rows)[:, slot])

    def tap(self, boundary: int, *, true: bool) -> Read:
        taps = self.aligned.taps
        read = taps.true if true else taps.rows
        return self.reader(lambda _, rows, __: read(boundary, rows))

    def tensor(self, name: str) -> Read:
        return self.reader(lambda _, rows, __: self.aligned.view.rows(name, rows))

    def candidates(self, side: str) -> list[tuple[Label, Read]]:
        """The taps that a side's slots are held against; the served side's against the trained slots as well."""
        taps = self.aligned.taps
        found: list[tuple[Label, Read]] = [(b, self.tap(b, true=side == "trained")) for b in taps.ladder]
        if side == "served" and not taps.complete:
            found += [(("slot", j), self.trained(j)) for j in range(self.dump.slots)]
        return found

    def own_outputs(self, side: str) -> Iterator[tuple[int, Read]]:
        """What layers put out by themselves: ``out.b`` where it was captured, and the step between two boundaries."""
        taps, view = self.aligned.taps, self.aligned.view
        for boundary in taps.ladder:
            name = f"out.{boundary}"
            if boundary > 0 and name in view.capture.ranks[0].entries and view.kinds.get(name) is None:
                yield boundary, self.tensor(name)
            if boundary - 1 in taps.ladder:
                yield boundary, step(*(self.tap(b, true=side == "trained") for b in (boundary, boundary - 1)))


def step(after: Read, before: Read) -> Read:
    return lambda shift: after(shift) - before(shift)


class Held:
    """A slot's rows, made ready to be held against many candidates."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.sound = all_finite(x)
        self.direction = unit(centre(x)) if self.sound else x
        self.length = float(x.norm())

    def measure(self, t: Tensor) -> Measured:
        """The rows held against a candidate's, where both are finite."""
        if not self.sound or not all_finite(t):
            x, t = finite(self.x, t)
            return Held(x).measure(t) if len(x) >= FEW else NOTHING
        if len(t) < FEW:
            return NOTHING
        score = float((self.direction * unit(centre(t))).sum() / len(t))
        scale = float((self.x * t).sum() / t.square().sum().clamp(min=1e-30))
        return Measured(score, scale, float((self.x - scale * t).norm()) / max(self.length, 1e-30))


def all_finite(x: Tensor) -> bool:
    """Whether every value is finite: a sum says so, and costs less than a look at each."""
    return bool(torch.isfinite(x.sum(dtype=torch.float64)))


def finite(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """The rows where both are finite."""
    if all_finite(x) and all_finite(t):
        return x, t
    good = torch.isfinite(x).all(dim=1) & torch.isfinite(t).all(dim=1)
    return x[good], t[good]


def explain(bench: Bench, x: Read, side: str) -> Reading | None:
    """The kind that explains a slot beyond doubt; None where none does, or where it cannot be told."""
    if bench.tokens < FEW:
        return None
    target = bench.aligned.taps.target
    candidates = bench.candidates(side)
    return (
        moved(x, candidates, complete=bench.aligned.taps.complete)
        or own_output(x, list(bench.own_outputs(side)), candidates)
        or normed(x, candidates, target)
        or rotated(x, candidates)
    )


def moved(x: Read, candidates: list[tuple[Label, Read]], *, complete: bool) -> Reading | None:
    """A tap, a row or two on or back."""
    here = Held(x(0))
    steps = [shift for shift in SHIFTS if shift]
    tried = [(here.measure(tap(s)), s, number) for number, (_, tap) in enumerate(candidates) for s in steps]
    if not tried:
        return None
    best, shift, number = max(tried, key=lambda one: one[0].score)
    if best.residue > MAX_RESIDUE or (best.score < SAME and not complete):
        return None
    label, tap = candidates[number]
    still, there = here.measure(tap(0)), Held(tap(shift))
    others = (there.measure(read(shift)) for other, (_, read) in enumerate(candidates) if other != number)
    rivals = [still.distance, *(other.distance for other in others if other.score < SAME)]
    scores = {str(s): round(here.measure(tap(s)).score, 6) for s in SHIFTS}
    figures = {"score": round(best.score, 6), "score_unshifted": round(still.score, 6), "scores": scores}
    scale = best.scale
    if abs(scale - 1) > MAX_SCALE_OFF / 2:
        scale = agreed_factor(*finite(here.x, tap(shift)), MAX_SCALE_OFF)
    return Reading(label, "plain", shift, scale, figures) if best.distance <= 0.5 * min(rivals) else None


def own_output(x: Read, own: list[tuple[int, Read]], candidates: list[tuple[Label, Read]]) -> Reading | None:
    """What one layer put out, without the residual that it is added to."""
    here = Held(x(0))
    tried = [(here.measure(read(0)), number) for number, (_, read) in enumerate(own)]
    if not tried:
        return None
    best, number = max(tried, key=lambda one: one[0].score)
    if best.residue > MAX_OWN_RESIDUE:
        return None
    boundary, found = own[number]
    there = Held(found(0))
    others = [read for b, read in own if b != boundary] + [read for _, read in candidates]
    rival = min((there.measure(read(0)).distance for read in others), default=0.0)
    figures = {"score": round(best.score, 6), "boundary": boundary}
    return Reading(boundary, "own-output", 0, best.scale, figures) if best.distance <= 0.5 * rival else None


def normed(x: Read, candidates: list[tuple[Label, Read]], target: Target | None = None) -> Reading | None:
    """A tap after RMS norm: tap times a factor for each token times a weight for each channel."""
    here = x(0)
    fits = sorted(((norm_fit(here, tap(0)).left, n) for n, (_, tap) in enumerate(candidates)))
    if not fits or fits[0][0] > MAX_RESIDUE or (len(fits) > 1 and fits[0][0] > 0.5 * fits[1][0]):
        return None
    label, tap = candidates[fits[0][1]]
    return Reading(label, "normed", 0, 1.0, norm_fit(here, tap(0)).evidence(target))


@dataclass(frozen=True)
class NormFit:
    """A slot held against a normed tap: what is ``left`` with the best ``weight`` [H], and with one weight for all."""

    left: float
    left_flat: float
    weight: Tensor

    def evidence(self, target: Target | None) -> dict[str, Any]:
        """What the norm's weights are, as far as can be told."""
        which = "none" if self.left_flat <= max(2 * self.left, 0.02) else "some"
        if target is not None and which == "some":
            norm = target.norm.float()
            apart = float((self.weight - norm).norm() / norm.norm()) if norm.shape == self.weight.shape else 1.0
            which = "the target's" if apart <= MAX_RESIDUE else "not the target's"
        return {"residue": round(self.left, 6), "weights": which}


def norm_fit(x: Tensor, t: Tensor) -> NormFit:
    """Hold x against t after an RMS norm."""
    x, t = finite(x, t)
    if len(x) < FEW:
        return NormFit(1.0, 1.0, x.new_ones(x.shape[1]))
    u = t * torch.rsqrt(t.square().mean(dim=-1, keepdim=True).clamp(min=1e-30))
    weight = (x * u).sum(dim=0) / u.square().sum(dim=0).clamp(min=1e-30)
    single = (x * u).sum() / u.square().sum().clamp(min=1e-30)
    rest, length = x - u * weight, x.norm().clamp(min=1e-30)
    # Outlier channels that hardly change would be fitted by their weight alone: so without the means as well.
    left = max(float(rest.norm() / length), float(centre(rest).norm() / centre(x).norm().clamp(min=1e-30)))
    return NormFit(left, float((x - u * single).norm() / length), weight)


def rotated(x: Read, candidates: list[tuple[Label, Read]]) -> Reading | None:
    """A tap in other axes: lengths and inner products between tokens are kept, directions are not."""
    here = x(0)
    fits = []
    for number, (_, tap) in enumerate(candidates):
        a, b = finite(here, tap(0))
        if len(a) >= FEW:
            fits.append((gram_error(a[:256], b[:256]), norm_spread(a, b), number))
    fits.sort()
    if not fits or fits[0][0] > MAX_GRAM or fits[0][1] > MAX_NORM_SPREAD:
        return None
    if Held(here).measure(candidates[fits[0][2]][1](0)).score >= SAME:
        return None  # directions are those of the tap: a constant was added, which inner products do not see
    alone = len(fits) == 1 or fits[0][0] <= 0.5 * fits[1][0]
    figures = {"gram_error": round(fits[0][0], 6), "norm_difference": round(fits[0][1], 6)}
    return Reading(candidates[fits[0][2]][0] if alone else None, "rotated", 0, 1.0, figures)
