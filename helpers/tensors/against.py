"""Two dumps of the same texts held against each other: the same features, in the same slots, of the same token?

For what no diagnosis is needed for: a dump that was converted, made again, or made by another engine. A capture is read
as a dump too (its feed). `helpers.wiring.diagnosis` names causes; this only measures, by `paired.compare_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.align import MIN_TOKENS
from helpers.tensors.dumps import Dump, Sample
from helpers.tensors.paired import Paired, compare_rows
from helpers.tensors.pieces import Rows
from helpers.tensors.statistics import SHIFTS

LEAST = 2 * max(SHIFTS) + 2  # tokens of a common start: a row that is left out, the shifts, and one to compare


@dataclass(frozen=True)
class Against:
    """Dump a [.., K, H] against dump b [.., L, H], on the texts that both hold.

    Attributes:
        samples: of a, how many have a partner in b. of: how many a has. tokens: rows in the means: no token 0, two rows
            from each end, and no row that is zero or not finite.
        matrix: mean cosine of a's slot at token t with b's slot at token t + s, [S, K, L]; centred: without each
            sample's own mean feature, which most of a raw cosine comes from.
        norms: median length of a's slots [K] and of b's [L]. spread: median relative difference, [min(K, L)].
        equal_rows: share of rows that are the same bits in the same slot; None where the dtypes differ.
        broken: rows that are ``non_finite`` or ``zero``, per slot, of a and of b.
    """

    samples: int
    of: int
    tokens: int
    matrix: Float[Tensor, "S K L"]
    centred: Float[Tensor, "S K L"]
    norms: tuple[Float[Tensor, " K"], Float[Tensor, " L"]]
    spread: Float[Tensor, " M"]
    equal_rows: float | None
    broken: dict[str, tuple[list[int], list[int]]]

    @property
    def nearest(self) -> list[tuple[int, int, float]]:
        """For each slot of a: the slot of b and the shift that it is most like, and the centred cosine there."""
        found = []
        for k in range(self.centred.shape[1]):
            best = int(self.centred[:, k].flatten().argmax())
            shift, slot = divmod(best, self.centred.shape[2])
            found.append((slot, SHIFTS[shift], float(self.centred[shift, k, slot])))
        return found

    @property
    def in_place(self) -> bool:
        """As many slots, each most like the one in its own place, at its own token."""
        kept = all((slot, shift) == (k, 0) for k, (slot, shift, _) in enumerate(self.nearest))
        return kept and self.centred.shape[1] == self.centred.shape[2]

    def record(self) -> dict[str, Any]:
        """The object under ``against`` of ``workbook inspect --against --json``."""
        return {
            "in_place": self.in_place,
            "samples": self.samples,
            "of": self.of,
            "tokens": self.tokens,
            "nearest": [{"slot": s, "shift": d, "centred_cosine": c} for s, d, c in self.nearest],
            "shifts": list(SHIFTS),
            "matrix": self.matrix.tolist(),
            "centred": self.centred.tolist(),
            "norms": [side.tolist() for side in self.norms],
            "norm_spread": self.spread.tolist(),
            "equal_rows": self.equal_rows,
            "broken": {name: list(sides) for name, sides in self.broken.items()},
        }

    def lines(self) -> list[str]:
        """For people: a line a slot, then what is broken."""
        lines = [f"{self.samples} of {self.of} samples have their text in both, {self.tokens} tokens compared"]
        if self.equal_rows is not None:
            lines.append(f"rows that are the same bits in the same slot: {self.equal_rows:.1%}")
        for k, (slot, shift, cosine) in enumerate(self.nearest):
            at = "" if shift == 0 else f", {abs(shift)} token{'s' * (abs(shift) > 1)} {'on' if shift > 0 else 'back'}"
            other = float(self.norms[1][slot])
            lines.append(
                f"slot {k}: most like slot {slot} there{at}: centred cosine {cosine:.4f}, "
                f"norm {float(self.norms[0][k]):.3g} against {other:.3g}"
            )
        for name, sides in self.broken.items():
            if any(map(any, sides)):
                lines.append(f"{name.replace('_', ' ')} rows by slot: {sides[0]} here, {sides[1]} there")
        return lines + ([] if self.in_place else ["the slots do not stand in the same places"])


def hold_against(a: Dump, b: Dump) -> Against:
    """Compare every sample of a with the one of b that shares the longest start with it. Reads sample by sample.

    Raises:
        UsageError: ``WB-DUMP-HIDDEN`` where they are of other hidden sizes; ``WB-ALIGN-NOTHING`` where no sample of one
            begins with six tokens of a sample of the other, or no row of them can be compared.
    """
    if a.hidden_size != b.hidden_size:
        raise UsageError(
            "WB-DUMP-HIDDEN",
            f"{a.path} holds features of width {a.hidden_size}, {b.path} of {b.hidden_size}",
            expected="two dumps of one model",
            next=f"workbook inspect {as_typed(b.path)}",
        )
    found = [compare_rows(x, y, shifts=SHIFTS, centred=True, counts=True) for x, y in _pairs(a, b)]
    told = [one for one in found if one.tokens]
    if not told:
        raise UsageError(
            "WB-ALIGN-NOTHING",
            f"{a.path} and {b.path} share no {LEAST} tokens from a sample's start on that can be compared",
            expected="dumps of the same texts",
            next="workbook inspect each of them; a capture of a dump's texts: workbook capture BOX RUN --replay DUMP",
        )
    return _pooled(found, told, len(a), same_type=a.dtype == b.dtype)


def _pairs(a: Dump, b: Dump) -> Iterator[tuple[Rows, Rows]]:
    """The common starts, as rows that are read when they are compared."""
    begins: dict[tuple[int, ...], list[tuple[int, Tensor]]] = {}
    for number, sample in enumerate(b):
        begins.setdefault(tuple(sample.token_ids[:MIN_TOKENS].tolist()), []).append((number, sample.token_ids))
    for sample in a:
        candidates = begins.get(tuple(sample.token_ids[:MIN_TOKENS].tolist()), ())
        lengths = [(_common(sample.token_ids, ids), -number) for number, ids in candidates]
        length, number = max(lengths, default=(0, 0))
        if length >= LEAST:
            yield _start(sample, length), _start(b[-number], length)


def _common(one: Tensor, two: Tensor) -> int:
    """Tokens that two texts share from the first on."""
    least = min(len(one), len(two))
    differ = (one[:least] != two[:least]).nonzero()
    return int(differ[0]) if len(differ) else least


def _start(sample: Sample, length: int) -> Rows:
    states = sample.open()
    return Rows((length, *states.shape[1:]), states.rows)


def _pooled(found: list[Paired], told: list[Paired], of: int, *, same_type: bool) -> Against:
    tokens = sum(one.tokens for one in told)

    def mean(name: str) -> Tensor:
        total: Tensor = torch.stack([getattr(one, name).double() * one.tokens for one in told]).sum(dim=0) / tokens
        return total.float()

    def middle(name: str) -> Tensor:
        return torch.cat([getattr(one, name)[one.keep] for one in told]).nanmedian(dim=0).values

    def counted(name: str) -> tuple[list[int], list[int]]:
        sides = zip(*(getattr(one, name) for one in found), strict=True)
        here, there = (torch.stack(list(side)).sum(dim=0).tolist() for side in sides)
        return here, there

    spreads = torch.stack([one.norm_spread for one in told])
    hashes = [(one.hashes_a, one.hashes_b) for one in found]
    common = told[0].cosine.shape[1]
    equal = torch.cat([x[:, :common] == y[:, :common] for x, y in hashes if x is not None and y is not None])
    return Against(
        samples=len(found),
        of=of,
        tokens=tokens,
        matrix=mean("matrix"),
        centred=mean("centred"),
        norms=(middle("norms_a"), middle("norms_b")),
        spread=spreads.nanmedian(dim=0).values,
        equal_rows=float(equal.float().mean()) if same_type else None,
        broken={name: counted(name) for name in ("non_finite", "zero")},
    )
