"""Reading of what is compared: rows that were served and trained on, block by block, and what is broken among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.align import Pairing, align_rows
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Dump
from helpers.tensors.health import Health
from helpers.tensors.near import NearCapture, near_tried
from helpers.tensors.statistics import SHIFTS, compare, means, norms
from helpers.tensors.view import View, look
from helpers.wiring.checkpoint import Target
from helpers.wiring.comparison import SlotComparison
from helpers.wiring.taps import Taps

BLOCK = 24 << 20  # bytes of float32 that are compared in one piece
IN_MEMORY = 64 << 20  # a comparison of fewer bytes of float32 is held, and read once
MEAN_TOKENS = 4096  # the means are exact up to here, and beyond it those of as many tokens, evenly spread
TRIED = 512  # rows that a slot in doubt is tried on
EDGE = 2  # shifts of up to two rows either way
FEW = 8  # fewer tokens than this leave centred features nothing to be told apart by


@dataclass(frozen=True)
class Aligned:
    """The pairings of a capture with a dump: every row that has a feed, and is not token 0 (a sink of its own kind).

    ``health`` fills while the rows are compared; ``matched_tokens`` is how many rows were paired, before any was left
    out. ``tried`` is how many rows a slot in doubt is tried on. ``shared_start``: tokens of the longest start that was
    not paired, because several texts have it and go on differently (`Alignment.shared`).
    """

    taps: Taps
    pairings: list[Pairing]
    matched_tokens: int
    health: Health = field(default_factory=Health)
    left_out: dict[str, Tensor] = field(default_factory=dict)
    tried: int = TRIED
    shared_start: int = 0

    @property
    def view(self) -> View:
        return self.taps.view


def align_features(capture: Capture, dump: Dump, *, target: Path | None = None) -> Aligned:
    """Pair the rows; only token ids are read."""
    view = look(capture, slots=dump.slots)
    taps = Taps(view, Target(target) if target is not None else None)
    usable = view.fed if view.slots else torch.ones(len(view.token_ids), dtype=torch.bool)
    found = align_rows(view, dump)
    pairings, matched = [], 0
    for pairing in found.pairings:
        matched += len(pairing)
        keep = usable[pairing.served] & (pairing.trained > 0)
        if keep.any():
            pairings.append(pairing.where(keep))
    tried = near_tried(capture) if isinstance(capture, NearCapture) else TRIED
    return Aligned(taps, pairings, matched, tried=tried, shared_start=found.shared)


def compare_features(capture: Capture, dump: Dump, aligned: Aligned | None = None) -> SlotComparison:
    """Compare what was served with what was trained on the rows that they share.

    The states are read once, but for those whose means are taken first. Rows that are not finite are left out and
    counted; rows that are zero or repeat across tokens are left out in a second look, where there are any.

    Raises:
        UsageError: ``WB-ALIGN-NOTHING`` where they share none.
        UsageError: ``WB-DUMP-HIDDEN`` where the two are of other hidden sizes.
    """
    check_width(capture, dump)
    found = compare_aligned(align_features(capture, dump) if aligned is None else aligned, dump)
    if found is None:
        raise nothing_shared(capture, dump)
    return found


def trained_boundaries(capture: Capture, dump: Dump) -> list[int] | None:
    """The boundaries that a dump was captured at, by its match to a capture's ladder; None where one is in doubt.

    Raises:
        UsageError: as `compare_features`.
    """
    found = [match.boundary for match in compare_features(capture, dump).trained if match is not None]
    known = [boundary for boundary in found if boundary is not None]
    return known if known and len(known) == dump.slots else None


def nothing_shared(capture: Capture, dump: Dump) -> UsageError:
    """The error where no token can be compared."""
    return UsageError(
        "WB-ALIGN-NOTHING",
        f"{capture.path} and {dump.path} share no tokens that can be compared",
        expected="requests that start as the dump's samples do, with a feed",
        next=f"workbook capture BOX RUN --replay {dump.path}",
    )


def check_width(capture: Capture, dump: Dump) -> None:
    """Refuse a dump of another hidden size than was captured."""
    hidden = capture.info.model.hidden_size
    if dump.hidden_size != hidden:
        raise UsageError(
            "WB-DUMP-HIDDEN",
            f"{dump.path} holds features of width {dump.hidden_size}, the captured model has {hidden}",
            expected="a dump of the model that was captured",
            next=f"workbook inspect {dump.path}",
        )


def compare_aligned(aligned: Aligned, dump: Dump) -> SlotComparison | None:
    """As `compare_features`, for two sides of one hidden size; None where nothing is left to compare."""
    if isinstance(aligned.view.capture, NearCapture):
        from helpers.wiring.near import compare_near

        return compare_near(aligned, dump)
    found = stream(aligned, dump)
    if found is not None and stale_rows(aligned, dump):
        found = stream(aligned, dump, again=True)
    return found


def stale_rows(aligned: Aligned, dump: Dump) -> bool:
    """Mark the rows that are to be left out for what health found; whether there are any."""
    served = {place for i in range(aligned.view.slots or 0) for place in aligned.health.stale(f"feed[{i}]")}
    trained = {place for i in range(dump.slots) for place in aligned.health.stale(f"trained[{i}]")}
    aligned.left_out["served"] = torch.tensor(sorted(served), dtype=torch.long)
    aligned.left_out["trained"] = torch.tensor(sorted(trained), dtype=torch.long)
    return bool(served or trained)


def stream(aligned: Aligned, dump: Dump, *, again: bool = False) -> SlotComparison | None:
    """One pass over the paired rows; None where nothing is left of them."""
    taps, slots = aligned.taps, aligned.view.slots or 0
    total = sum(len(pairing) for pairing in aligned.pairings)
    unnoted = Aligned(taps, aligned.pairings, 0, Health(), aligned.left_out)
    noted = unnoted if again else aligned
    small = 4 * total * width_of(aligned, dump) <= IN_MEMORY
    held = list(blocks(noted, dump, count=not again)) if small else None
    stride = max(1, -(-total // MEAN_TOKENS))

    def first() -> Iterable[tuple[Tensor, Tensor]]:
        return held if held is not None else blocks(unnoted, dump, stride=stride, count=False)

    try:
        mean, _ = means(lambda: (stack for stack, _ in first()))
    except ValueError:  # nothing finite: what is broken is counted all the same
        if held is None:
            list(blocks(noted, dump))
        return None
    lengths: list[Tensor] = []
    positions: list[Tensor] = []

    def batches() -> Iterator[Tensor]:
        for stack, place in held if held is not None else blocks(noted, dump, count=not again):
            lengths.append(norms(stack[:, : slots + dump.slots]))
            positions.append(place)
            yield stack

    statistics = compare(batches, mean=mean)
    served, trained = torch.cat(lengths).split([slots, dump.slots], dim=1)  # type: ignore[no-untyped-call]
    reduced = tuple(taps.reduced)
    return SlotComparison(
        taps.ladder, slots, dump.slots, statistics, torch.cat(positions), served, trained, taps.complete, reduced
    )


def width_of(aligned: Aligned, dump: Dump) -> int:
    """Values of a row of the stack."""
    taps = aligned.taps
    return ((aligned.view.slots or 0) + dump.slots + len(taps.ladder) + len(taps.reduced)) * aligned.view.hidden


def blocks(aligned: Aligned, dump: Dump, *, stride: int = 1, count: bool = True) -> Iterator[tuple[Tensor, Tensor]]:
    """Stacks [n, S, H] in float32 of rows that are finite, and their positions; ``count``: note each row's hash."""
    taps, view, health = aligned.taps, aligned.view, aligned.health
    slots, hidden = view.slots or 0, view.hidden
    step = max(1, BLOCK // (4 * width_of(aligned, dump))) * stride
    at = 0  # a number for each row of the trained side, across samples
    for pairing in aligned.pairings:
        for start in range(0, len(pairing), step):
            served = pairing.served[start : start + step : stride]
            trained = pairing.trained[start : start + step : stride]
            numbers = at + torch.arange(start, start + len(served) * stride, stride)
            tokens = neighbours(pairing.sample.token_ids, trained)
            good = torch.ones(len(served), dtype=torch.bool)
            parts: list[Tensor] = []
            sides = [("trained", pairing.sample.rows(trained), numbers)]
            if slots:
                sides.insert(0, ("feed", view.rows("feed", served).view(-1, slots, hidden), served))
            for name, x, places in sides:
                sound = health.finite(name, x, places)
                good &= sound
                if count:
                    for i in range(x.shape[1]):
                        health.rows(f"{name}[{i}]", x[sound, i], places[sound], tokens[sound])
                left_out = aligned.left_out.get("served" if name == "feed" else "trained")
                if left_out is not None:
                    good &= ~torch.isin(places, left_out)
                parts.append(x.float())
            for boundary in taps.ladder:
                tap = taps.rows(boundary, served)
                good &= health.finite(f"boundary.{boundary:03d}", tap, served)
                parts.append(tap.float().unsqueeze(1))
            parts += [taps.true(boundary, served).float().unsqueeze(1) for boundary in taps.reduced]
            stack = torch.cat(parts, dim=1)
            if taps.reduced:
                good &= torch.isfinite(stack).flatten(1).all(dim=1)
            if good.any():
                yield (stack, trained) if good.all() else (stack[good], trained[good])
        at += len(pairing)


def stretches(aligned: Aligned) -> list[tuple[int, Tensor, Tensor]]:
    """(pairing, served rows, trained rows) of consecutive rows, longer than two edges: `Aligned.tried` rows in all."""
    found, total = [], 0
    for number, pairing in enumerate(aligned.pairings):
        step = (pairing.trained.diff() != 1) | (pairing.served.diff() != 1)
        cuts = [0, *(step.nonzero().flatten() + 1).tolist(), len(pairing)]
        for a, b in pairwise(cuts):
            b = min(b, a + aligned.tried - total + 2 * EDGE)
            if b - a > 2 * EDGE:
                found.append((number, pairing.served[a:b], pairing.trained[a:b]))
                total += b - a - 2 * EDGE
            if total >= aligned.tried:
                return found
    return found


def neighbours(text: Tensor, index: Tensor) -> Tensor:
    """The tokens of some rows of a text, and of the rows up to two before and after; -1 beyond its ends. [n, 5]"""
    padded = torch.nn.functional.pad(text, (2, 2), value=-1)
    return torch.stack([padded[index + 2 + step] for step in SHIFTS], dim=1)


def around(view: View, index: Tensor) -> Tensor:
    """As `neighbours`, of rows of a capture; -1 where the neighbour is another request's."""
    parts = []
    for step in SHIFTS:
        near = (index + step).clamp(0, len(view.token_ids) - 1)
        same = (view.request[near] == view.request[index]) & (view.positions[near] == view.positions[index] + step)
        parts.append(torch.where(same, view.token_ids[near], -1))
    return torch.stack(parts, dim=1)


def look_at_the_rest(aligned: Aligned) -> None:
    """The rows of the capture that were paired with nothing: they are not compared, but they may be broken too."""
    view, health = aligned.view, aligned.health
    if isinstance(view.capture, NearCapture):
        return  # all rows were looked at where they lie
    paired = torch.zeros(len(view.token_ids), dtype=torch.bool)
    for pairing in aligned.pairings:
        paired[pairing.served] = True
    step = max(1, BLOCK // (4 * view.hidden))
    rest = (~paired).nonzero().flatten()
    for start in range(0, len(rest), step):
        index = rest[start : start + step]
        for boundary in view.boundaries:
            name = f"boundary.{boundary:03d}"
            health.finite(name, view.rows(name, index), index)
        fed = index[view.feed_rows[index] >= 0]
        if view.feed_width and len(fed):
            x = view.rows("feed", fed)
            sound = health.finite("feed", x, fed)
            x, fed = x[sound], fed[sound]
            for i, part in enumerate(x.split(view.hidden, dim=1) if view.slots else ()):  # type: ignore[no-untyped-call]
                health.rows(f"feed[{i}]", part, fed, around(view, fed))
