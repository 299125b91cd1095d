"""What remote/ answers beside the tensors, and how a folder's stream is planned."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from remote import near_data, sharing

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ranks(tmp_path: Path) -> list[str]:
    torch.manual_seed(0)
    base = {"boundary.000": torch.randn(5, 8).bfloat16(), "ids": torch.arange(5), "empty": torch.empty(0, 3)}
    other = {**base, "boundary.000": base["boundary.000"].clone()}
    other["boundary.000"][3, 2] += 1
    paths = [tmp_path / f"rank{number}.safetensors" for number in range(3)]
    for path, tensors in zip(paths, (base, base, other), strict=True):
        save_file(tensors, path, metadata={"file": path.name})
    return [str(path) for path in paths]


def test_hashes(ranks: list[str]) -> None:
    answer = near_data.hashes({"files": ranks})["files"]
    assert [item["sha256"] for item in answer] == [hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in ranks]
    first, second, third = (item["tensors"]["boundary.000"]["sha256"] for item in answer)
    assert first == second != third
    assert answer[0]["tensors"]["ids"] == {
        "dtype": "I64", "shape": [5], "sha256": hashlib.sha256(torch.arange(5).numpy().tobytes()).hexdigest(),
    }  # fmt: skip


def test_rank_comparison(ranks: list[str]) -> None:
    tensors = near_data.compare({"files": ranks, "names": None})["tensors"]
    assert tensors["ids"]["equal"]
    taps = tensors["boundary.000"]
    assert not taps["equal"]
    same, changed = taps["differences"]
    assert same["same_bits"]
    assert (same["max_abs"], same["relative"]) == (0.0, 0.0)
    assert changed["max_abs"] == pytest.approx(1.0, abs=0.05)
    assert 0 < changed["relative"] < 1
    assert near_data.compare({"files": ranks[:1], "names": ["none"]})["tensors"]["none"]["missing_in"] == [0]


def test_norms_and_slices(ranks: list[str], tmp_path: Path) -> None:
    norms = near_data.norms({"file": ranks[0]})["tensors"]
    assert set(norms) == {"boundary.000"}, "integers and empty tensors have none"
    tensor = near_data._load(Path(ranks[0]), "boundary.000").double()
    assert norms["boundary.000"]["rms"] == pytest.approx(float(tensor.square().mean().sqrt()))
    assert norms["boundary.000"]["max_row_norm"] == pytest.approx(float(tensor.norm(dim=1).max()))
    part = near_data.slice_({"file": ranks[0], "name": "boundary.000", "rows": [1, 3], "columns": [0, 2]})
    assert part["values"] == tensor[1:3, :2].tolist()
    assert part["dtype"] == "bfloat16"
    save_file({"x": torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]])}, tmp_path / "bad.safetensors")
    assert near_data.norms({"file": str(tmp_path / "bad.safetensors")})["tensors"]["x"]["non_finite"] == 2


@pytest.mark.parametrize("content", [b"", b"123", b"\xff" * 64, (50).to_bytes(8, "little") + b"{}" * 25])
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(near_data.Refused):
        near_data.read_header(tmp_path / "x.safetensors")


def test_a_truncated_file_is_refused_with_the_tensor(ranks: list[str]) -> None:
    path = Path(ranks[0])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(near_data.Refused, match="tensor"):
        near_data.read_header(path)


def test_called_as_a_program(ranks: list[str]) -> None:
    def call(operation: str, request: object) -> tuple[int, dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-m", "remote.near_data", operation],
            input=json.dumps(request), capture_output=True, text=True, cwd=ROOT, timeout=60,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout)

    assert call("hashes", {"files": ranks})[0] == 0
    status, answer = call("slice", {"file": ranks[0], "name": "none", "rows": [0, 1]})
    assert status == 1
    assert answer["error"]["code"] == "no-tensor"  # type: ignore[index]
    assert call("none", {})[1]["error"]["code"] == "usage"  # type: ignore[index]


def sent(paths: list[str]) -> tuple[list[bytes], list[int]]:
    """The files as they are put together from the walk's blocks, and how many bytes of each are sent."""
    files = [sharing.Mapped(Path(path)) for path in paths]
    walk = sharing.Walk(files, set(range(len(files))))
    built = [bytearray(file.size) for file in files]
    written = [0] * len(files)
    own = [0] * len(files)
    for index, file in enumerate(files):
        for block in walk.blocks(index):
            data = file.data[block.offset : block.offset + block.size]
            own[index] += block.size
            for other, offset in ((index, block.offset), *block.also):
                built[other][offset : offset + block.size] = data
                written[other] += block.size
    assert written == [file.size for file in files], "each byte comes once"
    return [bytes(content) for content in built], own


def test_the_blocks_give_each_file_back_bit_by_bit(ranks: list[str]) -> None:
    built, own = sent(ranks)
    assert built == [Path(path).read_bytes() for path in ranks]
    assert own[0] == Path(ranks[0]).stat().st_size
    header = near_data.read_header(Path(ranks[1]))[0]
    assert own[1] == header, "the second rank sends its header alone"
    assert own[2] == header + 5 * 8 * 2, "the third its header and the tensor that differs"


def test_files_of_other_kinds_are_wholes(tmp_path: Path) -> None:
    for name, data in {"a": b"same", "b": b"same", "c": b"more", "d": b"", "e": b"longer"}.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in "abcde"]
    built, own = sent(paths)
    assert built == [Path(path).read_bytes() for path in paths]
    assert own == [4, 0, 4, 0, 6]


def test_of_long_parts_only_the_blocks_that_differ_are_sent(tmp_path: Path) -> None:
    size = 3 * sharing.BLOCK + 1000
    first = bytearray(random.Random(0).randbytes(size))
    for name, at in (("a", None), ("b", sharing.BLOCK + 7), ("c", size - 1), ("d", sharing.BLOCK + 7)):
        data = bytearray(first)
        if at is not None:
            data[at] ^= 1
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in "abcd"]
    built, own = sent(paths)
    assert built == [Path(path).read_bytes() for path in paths]
    assert own == [size, sharing.BLOCK, 1000, 0], "d's block is the one of b"
