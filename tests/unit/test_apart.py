"""Copies of ranks, row by row: what a sink, many good rows or a long slot beside it would hide. Both sides alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import beside
import pytest
import streams
import torch
from torch import Tensor

from helpers.tensors.apart import NOTABLE, PARTIAL
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.tensors.near import open_near
from helpers.tensors.view import View, look
from helpers.wiring.diagnosis import Diagnosis, diagnose
from remote import sketches

Rank = dict[str, Tensor]
TAP, SINK = "boundary.005", 30000.0


def two_ranks(folder: Path, edit: Callable[[Rank], None], texts: list[Tensor], *, boundaries: bool = True) -> Path:
    made = streams.served(texts, ranks=2)
    for rank in made.ranks:
        starts = (rank["positions"] == 0).nonzero().flatten()
        for name in [name for name in rank if name.startswith("boundary") and name > "boundary.000"]:
            rank[name][starts] *= SINK / rank[name][starts].norm(dim=1, keepdim=True)
    edit(made.ranks[1])
    for rank in made.ranks:
        rank["feed"] = torch.cat([rank[f"boundary.{b:03d}"] for b in streams.TAPS], dim=1)[rank["feed_rows"]]
    if not boundaries:
        made.ranks = [{k: v for k, v in rank.items() if not k.startswith("boundary")} for rank in made.ranks]
    return made.write(folder)


def looked(folder: Path) -> View:
    """The view of a capture, which is the same of one that is left where it lies."""
    here, there = look(read_capture(folder)), look(open_near(beside.Beside(), str(folder)))
    assert (here.kinds, here.apart) == (there.kinds, there.apart)
    assert sketches.PARTIAL == PARTIAL
    return here


def diagnosed(tmp_path: Path, folder: Path, texts: list[Tensor]) -> Diagnosis:
    return diagnose(read_capture(folder), read_dump(streams.write_dump(tmp_path / "d", texts)))


def rows_off(rows: slice | Tensor, size: float = 0.25, names: tuple[str, ...] = (TAP,)) -> Callable[[Rank], None]:
    def edit(rank: Rank) -> None:
        for name in names:
            rank[name][rows] *= 1 + size

    return edit


def test_a_sink_hides_nothing(tmp_path: Path) -> None:
    """Every row is 25% off but the first of each text, hundreds of times longer: of all rows together it is 0.3%."""
    texts = streams.texts()

    def edit(rank: Rank) -> None:
        rank[TAP][rank["positions"] > 0] *= 1.25

    folder = two_ranks(tmp_path / "c", edit, texts)
    first, second = (rank.tensor(TAP) for rank in read_capture(folder).ranks)
    assert float((first - second).norm() / first.norm()) < PARTIAL
    view = looked(folder)
    assert view.kinds == {TAP: "partial-sum", "feed": "partial-sum"}
    assert view.apart[TAP].median == pytest.approx(0.2, rel=0.01)  # in lengths of the longer one
    assert view.apart[TAP].rows == view.apart[TAP].of == sum(map(len, texts)) - len(texts)
    found = diagnosed(tmp_path, folder, texts)
    assert "rank-partial-sum" in [f.code for f in found.findings if f.severity == "error"]


def test_a_few_rows_are_a_warning(tmp_path: Path) -> None:
    """Three of some two hundred rows: nobody can say of so few why they differ, and nobody should go without a word."""
    texts = streams.texts()
    folder = two_ranks(tmp_path / "c", rows_off(slice(40, 43)), texts)
    view = looked(folder)
    assert (view.kinds, view.apart[TAP].rows) == ({}, 3)
    assert NOTABLE * view.apart[TAP].of > 3
    found = diagnosed(tmp_path, folder, texts)
    assert [(f.code, f.severity) for f in found.findings] == [
        ("rank-partial-sum", "warning"), ("features-match", "info"),
    ]  # fmt: skip
    assert (found.verdict, found.fix) == ("match", None)
    assert found.findings[0].evidence["rows"] == {TAP: [3, view.apart[TAP].of], "feed": [3, view.apart["feed"].of]}
    assert "3 of 206 rows have other values on each rank" in found.findings[0].summary
    assert found.ranks.rows_apart == {TAP: (3, 206), "feed": (3, 202)}


def test_a_share_of_the_rows_is_an_error(tmp_path: Path) -> None:
    """Rows of verify passes alone, a tenth of all."""
    folder = two_ranks(tmp_path / "c", rows_off(slice(20, 40)), streams.texts())
    view = looked(folder)
    assert view.apart[TAP].median == 0
    assert view.kinds[TAP] == "partial-sum"


def test_a_long_slot_hides_no_other(tmp_path: Path) -> None:
    """Without a ladder the feed alone tells; slot 0 is 25% off, and slot 2 hundreds of times longer."""

    def edit(rank: Rank) -> None:
        rank["boundary.002"] *= 1.25

    texts = streams.texts()
    made = two_ranks(tmp_path / "c", edit, texts, boundaries=False)
    assert looked(made).kinds == {"feed": "partial-sum"}


@pytest.mark.parametrize(
    ("edit", "rows"),
    [
        (lambda rank: rank[TAP].mul_(1 + 1e-6), 0),
        (rows_off(torch.tensor([0]), 0.5), 0),
        (lambda rank: rank[TAP][7].zero_(), 1),
        (lambda rank: rank[TAP][7].fill_(float("nan")), 1),
        (lambda rank: None, None),
    ],
    ids=["last bits", "the first row of a text", "a row of zeros", "a row of nan", "nothing"],
)
def test_what_is_no_partial_sum(tmp_path: Path, edit: Callable[[Rank], None], rows: int | None) -> None:
    view = looked(two_ranks(tmp_path / "c", edit, streams.texts()))
    assert view.kinds == {}
    assert (view.apart[TAP].rows if TAP in view.apart else None) == rows
    assert all(0 < one.largest <= 1 for one in view.apart.values())
