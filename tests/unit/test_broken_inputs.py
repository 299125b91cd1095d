"""Every format x every fault: a code, exit 2, nothing run and nothing written; or, where nothing is broken, read as is.

A flipped byte shows where the format has a checksum (archives of torch.save, gzip, capture.json). Safetensors has none:
there the header alone can show it, and a value that changed is a value like any other.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dump_files
import pytest
import streams
import torch
from torch import Tensor

from helpers.cli import main
from helpers.tensors.dumps import read_dump

Build = Callable[[Path, Tensor], Path]


def capture(folder: Path, x: Tensor) -> Path:
    """A capture of one request with x [T, K + 1, H] as its feed and last boundary."""
    tokens = len(x)
    tensors = {
        "token_ids": dump_files.ids(tokens),
        "positions": torch.arange(tokens),
        "request": torch.zeros(tokens, dtype=torch.int32),
        "boundary.002": x[:, -1].contiguous(),
        "feed": x[:, :-1].flatten(1).contiguous(),
    }
    about = streams.served(streams.texts(1)).info | {"tp_size": 1}
    about["model"] = {"architecture": "X", "num_layers": 2, "hidden_size": x.shape[2]}
    about["requests"] = [{"id": "r0", "start": 0, "length": tokens, "prompt_tokens": tokens}]
    streams.Served([], about, [tensors]).write(folder)
    return folder / "rank0.safetensors"


def dumper(old: bool) -> Build:
    return lambda folder, x: dump_files.dumper(folder, 0, x, old=old)


BUILD: dict[str, Build] = {
    **{name: (lambda folder, x, w=write: w(folder, 0, x)) for name, write in dump_files.WRITERS.items()},  # type: ignore[misc]
    "sglang-dumper": dumper(True),
    "sglang-dumper-0.5.23": dumper(False),
    "sglang-tensor-dump": lambda folder, x: dump_files.tensor_dump(folder, 0, x),
    "capture": capture,
}
SAFETENSORS = ("speculators", "vllm", "capture")
WRITE: dict[str, Callable[..., Path]] = {
    **dump_files.WRITERS,
    "sglang-dumper": dump_files.dumper,
    "sglang-tensor-dump": dump_files.tensor_dump,
}
PASSES = ("sglang-dumper", "sglang-dumper-0.5.23", "sglang-tensor-dump")


def options(name: str) -> dict[str, str]:
    return {"format": "vllm"} if name == "vllm" else {}


def snapshot(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The code that `workbook inspect` gives; a refusal leaves everything as it was."""
    before = snapshot(folder)
    more = ["--format", "vllm"] if name == "vllm" else []
    with pytest.raises(SystemExit) as caught:
        main(["inspect", str(folder), "--json", *more])
    out = capsys.readouterr().out
    assert caught.value.code == 2, out
    error = json.loads(out)["error"]
    assert str(folder) in error["message"]
    assert error["expected"]
    assert error["next"]
    assert snapshot(folder) == before
    return str(error["code"])


@pytest.mark.parametrize("name", BUILD)
def test_cut_anywhere(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = BUILD[name](tmp_path / "d", dump_files.states(40, 3))
    whole = file.read_bytes()
    for size in (0, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        found = refused(tmp_path / "d", name, capsys)
        expected = {"speculators": "WB-TENSORS", "vllm": "WB-TENSORS", "capture": "WB-CAPTURE-TRUNCATED"}
        assert found.startswith(expected.get(name, "WB-DUMP-")), (size, found)
        if name not in SAFETENSORS:
            assert found in ("WB-DUMP-TRUNCATED", "WB-DUMP-UNSAFE", "WB-DUMP-FOREIGN"), (size, found)


@pytest.mark.parametrize("name", BUILD)
def test_a_flipped_byte(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = dump_files.states(512, 3)
    file = BUILD[name](tmp_path / "d", x)
    whole = file.read_bytes()

    def flip(place: int) -> None:
        flipped = bytearray(whole)
        flipped[place] ^= 1
        file.write_bytes(flipped)

    flip(len(whole) * 5 // 8)  # in the states
    if name == "capture":
        assert refused(tmp_path / "d", name, capsys) == "WB-CAPTURE-TAMPERED"
    elif name in SAFETENSORS:
        assert len(list(read_dump(tmp_path / "d", **options(name)))) == 1
    else:
        assert refused(tmp_path / "d", name, capsys) == "WB-DUMP-CORRUPT"
    if name in SAFETENSORS:
        for place in (1, whole.index(b'"shape"') + 9):  # the header's length, a shape
            flip(place)
            known = ("WB-TENSORS-TRUNCATED", "WB-TENSORS-FOREIGN", "WB-DUMP-SHAPE", "WB-CAPTURE-LAYOUT")
            assert refused(tmp_path / "d", name, capsys) in known


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("fault", ["integers", "no tokens"])
def test_no_states_to_be_had(tmp_path: Path, name: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = dump_files.states(6, 3)
    BUILD[name](tmp_path / "d", x[:0] if fault == "no tokens" else (x * 10).int())
    assert refused(tmp_path / "d", name, capsys) in ("WB-DUMP-SHAPE", "WB-CAPTURE-LAYOUT")


@pytest.mark.parametrize("name", BUILD)
def test_odd_and_whole(tmp_path: Path, name: str) -> None:
    """NaN, one token, one slot, five slots, samples of several lengths: read as they are."""
    for case, (tokens, slots) in {"nan": (6, 3), "one token": (1, 3), "one slot": (6, 1), "five": (6, 5)}.items():
        slots = 1 if name == "eagle" else slots
        x = dump_files.states(tokens, slots)
        if case == "nan":
            x[0, 0, 3] = float("nan")
        BUILD[name](tmp_path / case, x)
        dump = read_dump(tmp_path / case, **options(name))
        wide = slots + 1 if name in PASSES else slots
        assert dump[0].shape == (tokens, wide, 8), case
        assert torch.equal(dump[0].slots.nan_to_num(7.0), x[:, :wide].nan_to_num(7.0)), case


@pytest.mark.parametrize("name", [n for n in BUILD if n not in ("capture", "sglang-dumper-0.5.23")])
def test_samples_of_several_lengths(tmp_path: Path, name: str) -> None:
    write = {**dump_files.WRITERS, "sglang-dumper": dump_files.dumper, "sglang-tensor-dump": dump_files.tensor_dump}[
        name
    ]
    for i, tokens in enumerate((5, 1, 9)):
        write(tmp_path, i, dump_files.states(tokens, 1 if name == "eagle" else 3))
    assert [len(sample.token_ids) for sample in read_dump(tmp_path, **options(name))] == [5, 1, 9]


@pytest.mark.parametrize("name", ["sglang-dumper", "sglang-tensor-dump", "capture"])
def test_a_rank_that_is_not_there(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = dump_files.states(6, 3)
    if name == "capture":
        capture(tmp_path / "d", x).unlink()
        assert refused(tmp_path / "d", name, capsys) == "WB-CAPTURE-RANK-MISSING"
        return
    write: Callable[..., Path] = {"sglang-dumper": dump_files.dumper, "sglang-tensor-dump": dump_files.tensor_dump}[
        name
    ]
    write(tmp_path / "d", 0, x, ranks=2)
    write(tmp_path / "d", 1, x, ranks=1)
    assert refused(tmp_path / "d", name, capsys) == "WB-DUMP-RANK-MISSING"


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("bare", [True, False])
def test_a_bomb_does_not_go_off(tmp_path: Path, name: str, bare: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A pickle in the place of a file; and one in an archive of torch.save, beside what belongs there."""
    crater = tmp_path / "crater"
    file = BUILD[name](tmp_path / "d", dump_files.states(6, 3))
    if bare or name in SAFETENSORS:
        file.write_bytes(pickle.dumps(Bomb(crater)))
    else:
        there = {"bomb": Bomb(crater), "input_ids": dump_files.ids(6)}
        file.unlink()
        file = file.with_suffix("") if name == "specforge-gz" else file
        torch.save(there, file)
    before = snapshot(tmp_path / "d")
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path / "d"), "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    if name in SAFETENSORS:
        assert error["code"] in ("WB-TENSORS-FOREIGN", "WB-TENSORS-TRUNCATED", "WB-CAPTURE-TRUNCATED")
    else:
        assert error["code"] == "WB-DUMP-UNSAFE"
        assert "mkdir" in error["message"] or bare
        assert "weights_only" not in json.dumps(error)
        assert "trusted" not in json.dumps(error)
    assert not crater.exists()
    assert snapshot(tmp_path / "d") == before
