"""A comparison of a capture that stays on its box: of sketches, and of whole rows where a slot is in doubt.

Both sides are projected by the same seeded signs, which keep differences, and so distances between features, to some
percent; a tap that is its own boundary lies at distance zero in any projection. So a slot that is a tap beyond doubt is
named from sketches. For every other one some whole rows of all features come, and decide as they would anywhere.
Broken rows are counted on the box, in all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from helpers.errors import RemoteFailed, UsageError
from helpers.tensors.align import Pairing
from helpers.tensors.capture_info import parse_info
from helpers.tensors.dumps import Dump
from helpers.tensors.health import Health
from helpers.tensors.near import (
    LEAST_ROWS,
    MOST_ROWS,
    SKETCH_SHARE,
    NearCapture,
    dims_of,
    open_near,
    project,
    projection,
    unpack,
)
from helpers.tensors.statistics import compare
from helpers.wiring.comparison import Match, SlotComparison
from helpers.wiring.features import FEW, Aligned, around, neighbours, stale_rows, stream, stretches

if TYPE_CHECKING:
    from helpers.box import Box

SEED = "workbook.sketch/1"
PIECE = 512  # rows that are looked at in one piece here
SCALE_OFF = 0.005  # a factor that rounding does not bring: worth a look at whole rows


def open_on(box: Box, path: str, *, python: str | None = None) -> NearCapture:
    """A capture on a box, left there; verified by its hashes there.

    Args:
        path: the capture's folder on the box.
        python: an interpreter there with torch; by default that of the run that was captured.

    Raises:
        UsageError: as `read_capture`. RemoteFailed: ``WB-NEAR-DATA`` where the interpreter cannot tell.
    """
    from helpers.serving.registry import get_run

    folder = box.path(path)
    if python is None:
        file = Path(folder) / "capture.json"
        try:
            python = get_run(box, parse_info(file, box.read_text(str(file))).run).record.engine.python
        except RemoteFailed:  # no such file: said below; or a run that is not of this box
            python = "python3"
        except UsageError as error:
            if error.code.startswith("WB-CAPTURE"):
                raise
            python = "python3"
    return open_near(box.near(python), folder)


def compare_near(aligned: Aligned, dump: Dump) -> SlotComparison | None:
    """As `features.compare_aligned`, for a `NearCapture`; fills ``aligned.health`` for all rows of the capture."""
    near = Near(aligned, dump)
    near.scan()
    near.look_at_trained()
    stale_rows(aligned, dump)
    found = near.sketched()
    if found is not None and not certain(found):
        return near.whole_rows() or found
    return found


def certain(found: SlotComparison) -> bool:
    """Whether every slot is a tap itself, as it stands; a slot without a ladder has to be one of the trained."""
    matches: list[Match | None] = [*found.served, *found.trained]
    known = [match is not None and match.same and abs(match.scale - 1) <= SCALE_OFF for match in matches]
    return all(known) and bool(found.ladder) and bool(known)


class Near:
    """What a comparison asks the box, and what it makes of the answers."""

    def __init__(self, aligned: Aligned, dump: Dump) -> None:
        self.aligned, self.dump, self.view = aligned, dump, aligned.view
        assert isinstance(self.view.capture, NearCapture)
        self.asked = self.view.capture.asked
        self.numbers = self.number_rows()

    def number_rows(self) -> list[Tensor]:
        """A number for each row of the trained side, across samples, as `features.blocks` counts them."""
        at, found = 0, []
        for pairing in self.aligned.pairings:
            found.append(torch.arange(at, at + len(pairing)))
            at += len(pairing)
        return found

    def feature(self, name: str, index: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Which files hold some rows of a tensor and how the whole comes out of them; and the rows' numbers there."""
        view, ranks = self.view, self.view.capture.ranks
        place = (view.feed_rows if name == "feed" else view.local)[index]
        slots = (view.slots or 1) if name == "feed" else 1
        how, files, names = "plain", ranks[:1], [name]
        if view.rows_kind == "token-shard":
            key = "feed" if name == "feed" else "token_ids"
            lengths = torch.tensor([0, *(rank.entries[key].shape[0] for rank in ranks)])
            place = place + lengths.cumsum(0)[view.owner[index]]
            how, files, names = "stack", ranks, [name] * len(ranks)
        elif name.startswith("reduced."):
            number = name.split(".")[1]
            how, files = "sum", [ranks[0], *ranks]
            names = [f"residual.{number}", *(f"out.{number}" for _ in ranks)]
        elif view.kinds.get(name) == "feature-shard":
            how, files, names = "concat", ranks, [name] * len(ranks)
        return {"files": [str(rank.path) for rank in files], "names": names, "how": how, "slots": slots}, place

    def scan(self) -> None:
        """Count on the box what is broken, in all rows."""
        view, health = self.view, self.aligned.health
        names = [f"boundary.{b:03d}" for b in view.boundaries] + (["feed"] if view.feed_width else [])
        back: dict[str, Tensor] = {}
        asked = []
        for name in names:
            index = view.fed.nonzero().flatten() if name == "feed" else torch.arange(len(view.token_ids))
            feature, rows = self.feature(name, index)
            back[name] = torch.full((int(rows.max()) + 1 if len(rows) else 0,), -1)
            back[name][rows] = index
            asked.append(feature | {"key": name, "rows": name == "feed" and bool(view.slots)})
        found = unpack(self.asked.stream("scan", {"features": asked}))
        for name in names:
            bad = back[name][found[f"{name}/bad"].long()].tolist()
            if bad:
                health.non_finite.setdefault(name, []).extend(bad)
        if view.slots:
            self.note_served(found, back["feed"])

    def note_served(self, found: dict[str, Tensor], back: Tensor) -> None:
        """What the box says of zero and repeated feed rows, as if each row had been hashed here."""
        health, view = self.aligned.health, self.view
        tokens = around(view, torch.arange(len(view.token_ids)))
        for pairing in self.aligned.pairings:  # a sample may end before its request does
            tokens[pairing.served] = neighbours(pairing.sample.token_ids, pairing.trained)
        for slot in range(view.slots or 0):
            name = f"feed[{slot}]"
            empty = back[found[f"feed/zero.{slot}"].long()].tolist()
            if empty:
                health.zero[name] = empty
            again = back[found[f"feed/same.{slot}"].long()]
            health.hashes[name] = [found[f"feed/group.{slot}"].long()]
            health.seen[name] = [(again, tokens[again])]

    def look_at_trained(self) -> None:
        """The trained rows lie here, and are looked at as ever."""
        health = self.aligned.health
        for numbers, pairing in zip(self.numbers, self.aligned.pairings, strict=True):
            for piece in pieces(len(pairing)):
                part = torch.arange(len(pairing))[piece]
                rows, places = pairing.trained[part], numbers[part]
                x = pairing.sample.rows(rows)
                sound = health.finite("trained", x, places)
                tokens = neighbours(pairing.sample.token_ids, rows)
                for slot in range(x.shape[1]):
                    health.rows(f"trained[{slot}]", x[sound, slot], places[sound], tokens[sound])

    def good(self) -> list[Tensor]:
        """Of each pairing, the rows that are sound in every feature."""
        health, out = self.aligned.health, self.aligned.left_out
        bad = {name: torch.tensor(sorted(set(rows)), dtype=torch.long) for name, rows in health.non_finite.items()}
        trained = torch.cat([out["trained"], bad.pop("trained", torch.empty(0, dtype=torch.long))])
        served = torch.cat([out["served"], *bad.values()])
        return [
            ~(torch.isin(pairing.served, served) | torch.isin(numbers, trained))
            for pairing, numbers in zip(self.aligned.pairings, self.numbers, strict=True)
        ]

    def sketched(self) -> SlotComparison | None:
        """The comparison of sketches of rows that are evenly spread; None where no row is sound."""
        chosen = self.choose()
        total = sum(len(pairing) for pairing in chosen)
        if total == 0:
            return None
        taps, slots, hidden = self.aligned.taps, self.view.slots or 0, self.view.hidden
        matrix = projection(SEED, hidden, dims_of(hidden))
        served = torch.cat([pairing.served for pairing in chosen])
        captured = [f"boundary.{b:03d}" for b in taps.ladder if b in self.view.boundaries]
        names = (["feed"] if slots else []) + captured + [f"reduced.{b}" for b in taps.reduced]
        there = self.take(names, served, matrix.shape[1])
        trained = [project(pairing.sample.rows(pairing.trained), matrix) for pairing in chosen]
        here = tuple(torch.cat(part) for part in zip(*trained, strict=True))
        ladder = [
            there[f"boundary.{b:03d}"]
            if b in self.view.boundaries
            else project(taps.rows(b, served).unsqueeze(1), matrix)
            for b in taps.ladder
        ]
        parts = ([there["feed"]] if slots else []) + [here, *ladder, *(there[f"reduced.{b}"] for b in taps.reduced)]
        sketch, norms = (torch.cat([part[i] for part in parts], dim=1) for i in (0, 1))
        good = torch.isfinite(norms).all(dim=1)
        sketch, norms = sketch[good], norms[good]
        if len(norms) == 0:
            return None
        statistics = compare(lambda: (sketch[p].float() * norms[p].unsqueeze(2) for p in pieces(len(norms))))
        served_norms, trained_norms = norms[:, :slots], norms[:, slots : slots + self.dump.slots]
        positions = torch.cat([pairing.trained for pairing in chosen])[good]
        reduced = tuple(taps.reduced)
        about = (statistics, positions, served_norms, trained_norms, taps.complete, reduced)
        return SlotComparison(taps.ladder, slots, self.dump.slots, *about)

    def choose(self) -> list[Pairing]:
        """The sound rows that are sketched: all, or so many as the share of bytes allows, evenly spread."""
        sound = [p.where(good) for p, good in zip(self.aligned.pairings, self.good(), strict=True)]
        total = sum(len(pairing) for pairing in sound)
        view = self.view
        features = (view.slots or 0) + len(view.boundaries) + len(self.aligned.taps.reduced)
        row = features * (2 * dims_of(view.hidden) + 4) + 12  # with its numbers in the request
        many = int(SKETCH_SHARE * self.bytes_of_one_copy() / row)
        many = min(MOST_ROWS, max(many, LEAST_ROWS))
        step = max(1, -(-total // many))
        chosen, at = [], 0
        for pairing in sound:
            chosen.append(pairing.where((torch.arange(at, at + len(pairing)) % step) == 0))
            at += len(pairing)
        return [pairing for pairing in chosen if len(pairing)]

    def bytes_of_one_copy(self) -> int:
        """Bytes of the tensors, replicas counted once."""
        ranks, kinds = self.view.capture.ranks, self.view.kinds
        total = 0
        for name, entry in ranks[0].entries.items():
            split = self.view.rows_kind != "replicated" or kinds.get(name) is not None
            total += (
                sum(r.entries[name].stop - r.entries[name].start for r in ranks if name in r.entries)
                if split
                else (entry.stop - entry.start)
            )
        return total

    def take(self, names: list[str], index: Tensor, dims: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Sketches [N, K, D] and norms [N, K] of some rows, by tensor."""
        lists: dict[str, list[int]] = {}
        asked = []
        for name in names:
            feature, place = self.feature(name, index)
            rows = "feed" if name == "feed" else "rows"
            lists.setdefault(rows, place.tolist())
            asked.append(feature | {"key": name, "rows": rows, "as": "sketch"})
        request = {"features": asked, "rows": lists, "seed": SEED, "dims": dims}
        found = unpack(self.asked.stream("take", request))
        return {name: (found[name], found[f"{name}/norm"]) for name in names}

    def whole_rows(self) -> SlotComparison | None:
        """The comparison of some whole rows, the same that slots in doubt are tried on; None where they are too few."""
        good, pairings = self.good(), []
        for number, served, trained in stretches(self.aligned):
            whole = self.aligned.pairings[number]
            keep = good[number] & torch.isin(whole.served, served) & torch.isin(whole.trained, trained)
            if keep.any():
                pairings.append(whole.where(keep))
        some = replace(self.aligned, pairings=pairings, health=Health(), left_out={})
        found = stream(some, self.dump, again=True) if pairings else None
        return found if found is not None and found.tokens >= FEW else None


def pieces(rows: int) -> Iterator[slice]:
    for start in range(0, rows, PIECE):
        yield slice(start, start + PIECE)
