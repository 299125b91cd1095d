"""Reader of training dumps: speculators v1, and files that are none."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import streams
import torch

from helpers.errors import UsageError
from helpers.tensors.dumps import read_dump


def code(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        list(read_dump(path))
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    return caught.value.code


def sample(**change: Any) -> dict[str, Any]:
    states = [torch.randn(6, 8).bfloat16() for _ in range(4)]
    return {"input_ids": torch.arange(6), "loss_mask": torch.ones(6), "hidden_states": states} | change


def test_samples_come_in_order_and_in_their_dtype(tmp_path: Path) -> None:
    texts = streams.texts(12)
    dump = read_dump(streams.write_dump(tmp_path, texts))
    assert (dump.format, dump.slots, dump.hidden_size, dump.dtype) == ("speculators-v1", 3, 64, torch.bfloat16)
    assert len(dump) == 12
    for text, found in zip(texts, dump, strict=True):  # data_2 before data_10
        assert torch.equal(found.token_ids, text)
        ladder = streams.stream(text)
        for slot, boundary in enumerate(streams.TAPS):
            assert torch.equal(found.slots[:, slot], ladder[boundary].bfloat16())
        assert found.verifier is not None
        assert torch.equal(found.verifier, ladder[streams.LAYERS].bfloat16())
        assert found.loss_mask is not None
        assert found.stored_ids is None


def test_one_file_is_a_dump_too(tmp_path: Path) -> None:
    streams.write_dump(tmp_path, streams.texts(3))
    assert len(read_dump(tmp_path / "data_1.pt")) == 1


def test_without_a_loss_mask(tmp_path: Path) -> None:
    data = sample()
    del data["loss_mask"]
    torch.save(data, tmp_path / "x.pt")
    assert read_dump(tmp_path)[0].loss_mask is None


def test_one_slot_and_one_token(tmp_path: Path) -> None:
    states = [torch.ones(1, 8), torch.ones(1, 8)]
    torch.save(sample(input_ids=torch.tensor([3]), loss_mask=torch.ones(1), hidden_states=states), tmp_path / "x.pt")
    found = read_dump(tmp_path)[0]
    assert found.slots.shape == (1, 1, 8)


def test_missing(tmp_path: Path) -> None:
    assert code(tmp_path / "nowhere") == "WB-DUMP-MISSING"
    assert code(tmp_path) == "WB-DUMP-MISSING"


@pytest.mark.parametrize("cut", [1, 100, -1])
def test_truncated(tmp_path: Path, cut: int) -> None:
    torch.save(sample(), tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(whole[:-cut] if cut > 0 else b"")
    assert code(tmp_path / "x.pt") == "WB-DUMP-TRUNCATED"


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    data = sample(loss_mask=torch.tensor([1, 1, 7, 7, 1, 1], dtype=torch.uint8))
    torch.save(data, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    values = bytes([1, 1, 7, 7, 1, 1])
    assert whole.count(values) == 1
    (tmp_path / "x.pt").write_bytes(whole.replace(values, bytes([1, 1, 7, 6, 1, 1])))
    assert code(tmp_path / "x.pt") == "WB-DUMP-CORRUPT"


def test_a_file_that_was_written_without_checksums_is_read(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(sample(), tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert len(list(read_dump(tmp_path))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_states": torch.zeros(4, 6, 8)},
        {"hidden_states": {"a": 1}},
    ],
)
def test_foreign(tmp_path: Path, change: dict[str, Any]) -> None:
    torch.save(sample(**change), tmp_path / "x.pt")
    assert code(tmp_path / "x.pt") == "WB-DUMP-FOREIGN"
    torch.save(torch.zeros(3), tmp_path / "y.pt")
    assert code(tmp_path / "y.pt") == "WB-DUMP-FOREIGN"
    (tmp_path / "z.pt").write_bytes(b"not torch at all")
    assert code(tmp_path / "z.pt") in ("WB-DUMP-FOREIGN", "WB-DUMP-UNSAFE")


@pytest.mark.parametrize(
    "change",
    [
        {"input_ids": torch.arange(5)},
        {"input_ids": torch.arange(0), "hidden_states": [torch.zeros(0, 8)] * 3},
        {"input_ids": [1, 2, 3]},
        {"loss_mask": torch.ones(5)},
        {"hidden_states": [torch.zeros(6, 8)]},
        {"hidden_states": [torch.zeros(6, 8), torch.zeros(6, 9)]},
        {"hidden_states": [torch.zeros(6, 8), torch.zeros(6, 8, dtype=torch.long)]},
        {"hidden_states": [torch.zeros(6, 8), "text"]},
    ],
)
def test_shapes_that_do_not_fit(tmp_path: Path, change: dict[str, Any]) -> None:
    torch.save(sample(**change), tmp_path / "x.pt")
    assert code(tmp_path / "x.pt") == "WB-DUMP-SHAPE"


def test_files_of_two_runs(tmp_path: Path) -> None:
    torch.save(sample(), tmp_path / "a.pt")
    torch.save(sample(hidden_states=[torch.randn(6, 8).bfloat16()] * 3), tmp_path / "b.pt")
    with pytest.raises(UsageError, match="WB-DUMP-SHAPE"):
        list(read_dump(tmp_path))


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_bomb_does_not_go_off(tmp_path: Path) -> None:
    crater = tmp_path / "crater"
    torch.save(sample(extra=Bomb(crater)), tmp_path / "x.pt")
    assert code(tmp_path / "x.pt") == "WB-DUMP-UNSAFE"
    (tmp_path / "y.pt").write_bytes(pickle.dumps(Bomb(crater)))
    assert code(tmp_path / "y.pt") == "WB-DUMP-UNSAFE"
    assert not crater.exists()
