"""Captures of ranks that hold other tokens each (A2A, data-parallel attention), from chunks made by hand.

.venv/bin/python -m pytest tests/unit/test_shards.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streams
import torch
from chunks_by_hand import Chunks, order, spec_run
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.tensors.view import look
from helpers.wiring.diagnosis import diagnose
from remote.assemble import assemble
from remote.chunks import CaptureFailed

Edit = Callable[[Path, dict[str, Tensor]], dict[str, Tensor]]


def change(folder: Path, edit: Edit, pattern: str = "*.safetensors") -> None:
    """Rewrite chunk files with other tensors."""
    for path in sorted(folder.glob(pattern)):
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        save_file({k: v.contiguous() for k, v in edit(path, load_file(path)).items()}, path, metadata=metadata)


def scatter(ranks: int, *, padded: bool, below: int = 1, feed: bool = False) -> Edit:
    """Boundaries from `below` on are scattered over the ranks, in stretches as equal as can be or padded to be so."""

    def edit(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        rank, rows = int(path.name[4]), len(tensors["token_ids"])

        def part(x: Tensor) -> Tensor:
            if not padded:
                return x.tensor_split(ranks)[rank]
            each = -(-rows // ranks)
            return torch.nn.functional.pad(x, (0, 0, 0, each * ranks - rows))[rank * each : (rank + 1) * each]

        def scattered(name: str) -> bool:
            return feed if name == "feed" else name.startswith("boundary") and int(name[-3:]) >= below

        return {name: part(x) if scattered(name) else x for name, x in tensors.items()}

    return edit


def whole(folder: Path) -> dict[str, Any]:
    """The capture of the same passes on one rank."""
    requests = spec_run(Chunks(folder))
    assemble(folder, requests)
    (rank,) = read_capture(folder).ranks
    return {name: rank.tensor(name) for name in rank.entries}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("padded", [False, True])
def test_a_scattered_pass_is_put_together(tmp_path: Path, ranks: int, padded: bool) -> None:
    expected = whole(tmp_path / "whole")
    for rank in range(ranks):
        requests = spec_run(Chunks(tmp_path / "c"), rank=rank)
    requests["capture"]["tp_size"] = ranks
    change(tmp_path / "c" / "chunks", scatter(ranks, padded=padded), "*.target.*")
    written = assemble(tmp_path / "c", requests)
    capture = read_capture(tmp_path / "c", verify=True)
    view = look(capture)
    assert (view.rows_kind, written["rows"]["kept"]) == ("token-shard", len(expected["token_ids"]))
    assert sum(len(rank.token_ids) for rank in capture.ranks) == len(expected["token_ids"])
    assert torch.equal(view.token_ids, expected["token_ids"])
    every = torch.arange(len(view.token_ids))
    for boundary in range(3):
        name = f"boundary.{boundary:03d}"
        assert torch.equal(view.rows(name, every), expected[name])
    fed = view.fed.nonzero().flatten()
    assert torch.equal(fed, expected["feed_rows"])
    assert torch.equal(view.rows("feed", fed), expected["feed"])
    assert [(r.start, r.length) for r in capture.info.requests] == [(0, 7), (7, 5)]


def fails(folder: Path, requests: dict[str, Any]) -> str:
    with pytest.raises(CaptureFailed) as caught:
        assemble(folder, requests, patience=0)
    assert not (folder / "capture.json").exists()
    return str(caught.value.error["code"])


def test_stretches_that_are_not_the_whole_are_refused(tmp_path: Path) -> None:
    def two(name: str, edit: Edit) -> tuple[Path, dict[str, Any]]:
        for rank in range(2):
            requests = spec_run(Chunks(tmp_path / name), rank=rank)
        requests["capture"]["tp_size"] = 2
        change(tmp_path / name / "chunks", edit)
        return tmp_path / name, requests

    assert fails(*two("lost", scatter(3, padded=False))) == "WB-CAPTURE-SHARD"  # a third rank's rows are nowhere

    def uneven(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: x[: len(x) - 1 - int(n[-1])] if n.startswith("boundary") else x for n, x in tensors.items()}

    assert fails(*two("uneven", uneven)) == "WB-CAPTURE-SHARD"

    def one_rank(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return scatter(2, padded=False)(path, tensors) if path.name.startswith("rank1") else tensors

    assert fails(*two("one rank", one_rank)) == "WB-CAPTURE-SHARD"


def own_requests(folder: Path) -> dict[str, Any]:
    """Data-parallel attention: a rank, a request; other passes on each, and none at all on a third."""
    chunks = Chunks(folder)
    chunks.write("target", "EXTEND", [(0, [1, 2, 3], [0, 1, 2])], rank=0)
    chunks.write("draft", "EXTEND", [(0, [2, 3, 10], [0, 1, 2])], rank=0)
    chunks.write("target", "TARGET_VERIFY", [(0, [10, 11], [3, 4])], rank=0)
    chunks.write("target", "EXTEND", [(0, [4, 5], [0, 1])], rank=1)
    chunks.write("draft", "EXTEND", [(0, [5, 20], [0, 1])], rank=1)
    made = order(("a", [1, 2, 3], [10, 11]), ("b", [4, 5], [20]), tp=3)
    made["capture"]["launch"] = {"enable_dp_attention": True}
    return made


def test_ranks_with_requests_of_their_own(tmp_path: Path) -> None:
    requests = own_requests(tmp_path / "c")
    written = assemble(tmp_path / "c", requests)
    assert written["rows"] == {"kept": 7, "rejected": 0, "foreign": 0, "feed": 5}
    capture = read_capture(tmp_path / "c", verify=True)
    assert [len(rank.token_ids) for rank in capture.ranks] == [5, 2, 0]
    view = look(capture)
    assert view.token_ids.tolist() == [1, 2, 3, 10, 11, 4, 5]
    assert view.rows("boundary.002", torch.arange(7))[:, 0].tolist() == view.token_ids.tolist()
    assert view.fed.tolist() == [True, True, True, False, False, True, True]


def test_ranks_that_share_a_request_and_disagree_are_refused(tmp_path: Path) -> None:
    requests = own_requests(tmp_path / "c")
    Chunks(tmp_path / "c", clock=10).write("target", "EXTEND", [(0, [1, 2], [0, 1])], rank=2)
    assert fails(tmp_path / "c", requests) == "WB-CAPTURE-ROWS"


@pytest.mark.parametrize(("split", "code"), [(True, "rank-token-shard"), (False, "features-match")])
def test_the_diagnosis(tmp_path: Path, split: bool, code: str) -> None:
    """Tokens of one request on several ranks are a finding; whole requests, each on a rank, are none."""
    texts = streams.texts()
    made = streams.served(texts)
    clean, rows = made.ranks[0], len(made.ranks[0]["token_ids"])
    deal = torch.arange(rows) % 2 if split else clean["request"].long() % 2
    fed = torch.zeros(rows, dtype=torch.bool)
    fed[clean["feed_rows"]] = True
    at = torch.full((rows,), -1)
    at[clean["feed_rows"]] = torch.arange(len(clean["feed_rows"]))
    made.ranks = []
    for rank in range(2):
        mine = deal == rank
        tensors = {k: v[mine] for k, v in clean.items() if not k.startswith("feed")}
        tensors |= {"feed": clean["feed"][at[mine & fed]], "feed_rows": fed[mine].nonzero().flatten()}
        made.ranks.append(tensors)
    made.info["tp_size"] = 2
    capture = read_capture(made.write(tmp_path / "c"))
    found = diagnose(capture, read_dump(streams.write_dump(tmp_path / "d", texts)))
    assert found.codes() == [code]
    assert found.ranks.split_requests == (len(texts) if split else 0)
    assert [slot.served.boundary for slot in found.slots] == [2, 5, 9]
