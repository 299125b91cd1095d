"""Reader of workbook.capture/1: what it gives, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streams
import torch

from helpers.errors import UsageError
from helpers.tensors.capture import read_capture
from helpers.tensors.header import read_header
from helpers.tensors.inspect import inspect


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return streams.served(streams.texts(2), ranks=2).write(tmp_path / "c")


def code(folder: Path, *, verify: bool = False) -> str:
    with pytest.raises(UsageError) as caught:
        read_capture(folder, verify=verify)
    assert caught.value.exit_code == 2
    assert str(folder) in caught.value.message
    return caught.value.code


def edit(folder: Path, **change: object) -> None:
    file = folder / "capture.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))


def test_what_it_gives(folder: Path) -> None:
    capture = read_capture(folder, verify=True)
    rank = capture.ranks[1]
    assert rank.boundaries == list(range(streams.LAYERS + 1))
    assert (capture.slots, rank.feed_width) == (3, 3 * streams.HIDDEN)
    assert len(rank.token_ids) == sum(r.length for r in capture.info.requests)
    rows = torch.tensor([5, 0])
    assert torch.equal(rank.rows("boundary.003", rows), rank.tensor("boundary.003")[rows])


def test_unknown_keys_are_ignored(folder: Path) -> None:
    edit(folder, something={"new": 1})
    assert read_capture(folder).info.run == "synthetic"


def test_a_width_that_is_no_multiple_is_no_broken_file(tmp_path: Path) -> None:
    served = streams.served(streams.texts(1))
    served.ranks[0]["feed"] = served.ranks[0]["feed"][:, :-7]
    capture = read_capture(served.write(tmp_path / "c"))
    assert capture.slots is None
    assert capture.ranks[0].feed_width == 3 * streams.HIDDEN - 7


def test_missing_and_foreign(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert code(tmp_path / "empty") == "WB-CAPTURE-MISSING"
    edit(folder, schema="workbook.capture/2")
    assert code(folder) == "WB-CAPTURE-SCHEMA"
    edit(folder, schema="workbook.capture/1", requests="none")
    assert code(folder) == "WB-CAPTURE-SCHEMA"
    (folder / "capture.json").write_text("{")
    assert code(folder) == "WB-CAPTURE-SCHEMA"


def test_truncated_tampered_and_lost_files(folder: Path) -> None:
    file = folder / "rank1.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert code(folder) == "WB-CAPTURE-TRUNCATED"
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    read_capture(folder)
    assert code(folder, verify=True) == "WB-CAPTURE-TAMPERED"
    file.unlink()
    assert code(folder) == "WB-CAPTURE-RANK-MISSING"


def test_a_rank_too_few(folder: Path) -> None:
    files = json.loads((folder / "capture.json").read_text())["files"]
    edit(folder, files=files[:1])
    assert code(folder) == "WB-CAPTURE-RANK-MISSING"


@pytest.mark.parametrize("name", ["token_ids", "request"])
def test_a_tensor_that_must_be_there(tmp_path: Path, name: str) -> None:
    served = streams.served(streams.texts(1))
    del served.ranks[0][name]
    assert code(served.write(tmp_path / "c")) == "WB-CAPTURE-LAYOUT"


def test_rows_that_do_not_agree(tmp_path: Path) -> None:
    served = streams.served(streams.texts(1))
    served.ranks[0]["boundary.004"] = served.ranks[0]["boundary.004"][:-1]
    assert code(served.write(tmp_path / "a")) == "WB-CAPTURE-LAYOUT"
    served = streams.served(streams.texts(1))
    del served.ranks[0]["feed_rows"]
    assert code(served.write(tmp_path / "b")) == "WB-CAPTURE-LAYOUT"


def test_headers(tmp_path: Path) -> None:
    def refusal(content: bytes) -> str:
        file = tmp_path / "x.safetensors"
        file.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_header(file)
        return caught.value.code

    good = (1 << 10).to_bytes(8, "little")
    assert refusal(b"") == "WB-TENSORS-FOREIGN"
    assert refusal(b"PK\x03\x04" + b"x" * 40) == "WB-TENSORS-FOREIGN"
    assert refusal(good + b"{}") == "WB-TENSORS-TRUNCATED"
    assert refusal((2).to_bytes(8, "little") + b"[]") == "WB-TENSORS-FOREIGN"
    lie = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}).encode()
    assert refusal(len(lie).to_bytes(8, "little") + lie + b"x" * 8) == "WB-TENSORS-FOREIGN"
    short = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    assert refusal(len(short).to_bytes(8, "little") + short + b"x" * 15) == "WB-TENSORS-TRUNCATED"


def test_inspect(folder: Path, tmp_path: Path) -> None:
    found = inspect(folder)
    assert (found["format"], found["samples"], found["slots"]) == ("workbook.capture/1", 2, 3)
    assert (found["ranks"], found["dtype"], found["feed_width"]) == (2, "float32", 3 * streams.HIDDEN)
    dump = inspect(streams.write_dump(tmp_path / "d", streams.texts(2)))
    assert dump["format"] == "speculators-v1"
    assert (dump["samples"], dump["slots"], dump["dtype"]) == (2, 3, "bfloat16")
    assert dump["tokens"] == found["tokens"]
