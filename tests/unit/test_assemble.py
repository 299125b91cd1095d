"""Chunks to a capture, on chunks made by hand: .venv/bin/python -m pytest tests/unit/test_assemble.py"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from chunks_by_hand import Chunks, H, order, spec_run, state

from helpers.tensors.capture import read_capture
from remote import chunks as chunks_module
from remote.assemble import assemble, main
from remote.chunks import CaptureFailed


def test_batches_chunks_and_rejected_rows(tmp_path: Path) -> None:
    requests = spec_run(Chunks(tmp_path))
    assemble(tmp_path, requests)
    capture = read_capture(tmp_path, verify=True)
    rank = capture.ranks[0]
    assert [(r.id, r.start, r.length, r.prompt_tokens) for r in capture.info.requests] == [
        ("a", 0, 7, 3),
        ("b", 7, 5, 2),
    ]
    assert rank.token_ids.tolist() == [1, 2, 3, 10, 11, 12, 13, 4, 5, 20, 21, 22]
    assert rank.positions.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]
    assert rank.request.tolist() == [0] * 7 + [1] * 5
    for b in range(3):
        assert torch.equal(rank.tensor(f"boundary.{b:03d}"), state(rank.token_ids.tolist(), rank.positions.tolist(), b))
    # Rows 5 and 6 belong to the pass in which the first request ended: their states were never fed.
    assert rank.feed_rows is not None
    assert rank.feed_rows.tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]
    assert rank.tensor("feed")[:, 1].tolist() == rank.positions[rank.feed_rows].tolist()
    assert rank.tensor("feed").dtype == torch.bfloat16
    assert capture.slots == 2
    assert not (tmp_path / "chunks").exists()
    assert not list(tmp_path.glob("*.part"))


def test_capture_json_says_what_the_server_was(tmp_path: Path) -> None:
    assemble(tmp_path, spec_run(Chunks(tmp_path)))
    written = json.loads((tmp_path / "capture.json").read_text())
    assert written["schema"] == "workbook.capture/1"
    assert written["aux_layer_ids"] == [0]
    assert written["model"] == {"architecture": "DeepseekV3ForCausalLM", "num_layers": 2, "hidden_size": H}
    assert written["tapped"] == {"layers": [1], "embedding": False}
    assert written["rows"] == {"kept": 12, "rejected": 5, "foreign": 0, "feed": 10}


def test_a_feed_for_every_row_needs_no_feed_rows(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    chunks.write("draft", "EXTEND", [(0, [2, 3], [0, 1])])
    assemble(tmp_path, order(("a", [1, 2], [3])))
    rank = read_capture(tmp_path).ranks[0]
    assert "feed_rows" not in rank.entries
    assert rank.feed_rows is not None
    assert rank.feed_rows.tolist() == [0, 1]


def test_a_padded_pass_gives_its_real_rows(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    padded = {"boundary.001": state([1, 2, 0, 0], [0, 1, 0, 0], 1)}
    chunks.write("target", "EXTEND", [(0, [1, 2], [0, 1])], tensors=padded)
    assemble(tmp_path, order(("a", [1, 2], [3])))
    assert read_capture(tmp_path).ranks[0].tensor("boundary.001").shape == (2, H)


def test_a_tree_of_drafts(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.write("target", "EXTEND", [(0, [1], [0])])
    tree = {"next": [[1, 3, -1, -1]], "sibling": [[-1, 2, -1, -1]]}
    chunks.write("target", "TARGET_VERIFY", [(0, [10, 11, 12, 11], [1, 2, 2, 3])], tree=tree)
    chunks.write("draft", "DRAFT_EXTEND", [(0, [12, 13], [1, 2])])
    assemble(tmp_path, order(("a", [1], [10, 12, 13])))
    rank = read_capture(tmp_path).ranks[0]
    assert rank.token_ids.tolist() == [1, 10, 12]
    assert rank.feed_rows is not None
    assert rank.feed_rows.tolist() == [1, 2]


def test_two_ranks(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    spec_run(chunks, rank=1)
    requests = spec_run(chunks, rank=0)
    requests["capture"]["tp_size"] = 2
    assemble(tmp_path, requests)
    first, second = read_capture(tmp_path, verify=True).ranks
    assert all(torch.equal(first.tensor(name), second.tensor(name)) for name in first.entries)


def fails(folder: Path, requests: dict[str, Any]) -> str:
    with pytest.raises(CaptureFailed) as caught:
        assemble(folder, requests, patience=0)
    assert set(caught.value.error) == {"code", "message", "expected", "next"}
    assert not (folder / "capture.json").exists()
    return str(caught.value.error["code"])


def test_what_cannot_be_put_together_is_said(tmp_path: Path) -> None:
    one = order(("a", [1, 2], [3]))
    Chunks(tmp_path / "empty")
    assert fails(tmp_path / "empty", one) == "WB-CAPTURE-EMPTY"

    Chunks(tmp_path / "ranks").write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    assert fails(tmp_path / "ranks", order(("a", [1, 2], [3]), tp=2)) == "WB-CAPTURE-RANKS"

    Chunks(tmp_path / "rows").write("target", "EXTEND", [(0, [7, 8], [0, 1])])
    assert fails(tmp_path / "rows", one) == "WB-CAPTURE-ROWS"

    chunks = Chunks(tmp_path / "shard")
    chunks.write("target", "EXTEND", [(0, [1, 2], [0, 1])], tensors={"boundary.001": state([1], [0], 1)})
    assert fails(tmp_path / "shard", one) == "WB-CAPTURE-SHARD"

    chunks = Chunks(tmp_path / "hook")
    chunks.write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    (chunks.folder / "error.rank0.1.json").write_text(json.dumps({"rank": 0, "error": "OSError: full"}))
    assert fails(tmp_path / "hook", one) == "WB-CAPTURE-HOOK"

    broken = Chunks(tmp_path / "broken").write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    broken.write_bytes(broken.read_bytes()[:-5])
    assert fails(tmp_path / "broken", one) == "WB-CAPTURE-CHUNK"

    Chunks(tmp_path / "old").write("target", "EXTEND", [(0, [1, 2], [0, 1])], schema="workbook.taps/0")
    assert fails(tmp_path / "old", one) == "WB-CAPTURE-CHUNK"


@pytest.mark.parametrize(
    ("report", "code", "expected"),
    [
        ({"errno": errno.ENOSPC}, "WB-DISK-FULL", "room"),
        ({"errno": errno.EDQUOT}, "WB-DISK-FULL", "room"),
        ({"errno": errno.EACCES}, "WB-CAPTURE-HOOK", "a folder that every rank"),
        ({"errno": None}, "WB-CAPTURE-HOOK", "passes whose arguments"),
        (None, "WB-DISK-FULL", "room"),  # not even the report had room
    ],
)
def test_what_the_hook_gave_up_on(tmp_path: Path, report: dict[str, Any] | None, code: str, expected: str) -> None:
    """Asked at once: nobody waits for ranks whose hook has given up."""
    chunks = Chunks(tmp_path)
    chunks.write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    said = "" if report is None else json.dumps({"rank": 1, "error": "why", **report})
    (chunks.folder / "error.rank1.77.json").write_text(said)
    with pytest.raises(CaptureFailed) as caught:
        assemble(tmp_path, order(("a", [1, 2], [3]), tp=2), patience=60)
    assert caught.value.error["code"] == code
    assert "rank 1" in caught.value.error["message"]
    assert caught.value.error["expected"].startswith(expected)


def test_a_rank_that_could_not_even_say_that_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Chunks(tmp_path).write("target", "EXTEND", [(0, [1, 2], [0, 1])])
    monkeypatch.setattr(chunks_module, "free", lambda folder: 100)
    assert fails(tmp_path, order(("a", [1, 2], [3]), tp=2)) == "WB-DISK-FULL"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_to_put_the_ranks_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The room is taken before a row is copied: in a mapping the process would die of a signal, without a word."""

    def none(file: int, offset: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps(spec_run(Chunks(tmp_path / "c"))))
    monkeypatch.setattr(os, "posix_fallocate", none)
    assert main([str(tmp_path / "c"), "--requests", str(requests)]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "WB-DISK-FULL"
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["chunks"], "no half of a rank"


def test_a_disk_that_takes_no_reservations_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(file: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    assemble(tmp_path, spec_run(Chunks(tmp_path)))
    assert (tmp_path / "capture.json").exists()


@pytest.mark.parametrize("name", ["rank1.00000000000000000009.target.safetensors.part", ".tmpQ2x"])
def test_ranks_are_waited_for_while_their_files_grow(tmp_path: Path, name: str) -> None:
    """A last pass of 900 MB may take a slow disk longer than the patience: it is counted from the last byte on."""
    chunks = Chunks(tmp_path)
    spec_run(chunks)
    requests = spec_run(Chunks(tmp_path), rank=1)
    requests["capture"]["tp_size"] = 2
    last = max(chunks.folder.glob("rank1.*"))
    content = last.read_bytes()
    last.unlink()

    def slowly() -> None:
        with (chunks.folder / name).open("wb") as file:
            for at in range(0, len(content), -(-len(content) // 8)):
                file.write(content[at : at + -(-len(content) // 8)])
                file.flush()
                time.sleep(0.25)
        (chunks.folder / name).rename(last)

    writer = threading.Thread(target=slowly)
    writer.start()
    try:
        assemble(tmp_path, requests, patience=1.0)
    finally:
        writer.join()
    assert len(read_capture(tmp_path, verify=True).ranks) == 2


def test_the_command_prints_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps(spec_run(Chunks(tmp_path / "c"))))
    assert main([str(tmp_path / "c"), "--requests", str(requests)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["kept"] == 12
    Chunks(tmp_path / "none")
    assert main([str(tmp_path / "none"), "--requests", str(requests), "--patience", "0"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "WB-CAPTURE-EMPTY"
