"""What a path is that does not hold what was asked for: swapped options, the box's paths, names in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import drafters
import pytest
import streams
import torch

from helpers.acceptance.prompts import read_prompts
from helpers.errors import UsageError
from helpers.tensors.capture import read_capture
from helpers.tensors.capture_info import missing
from helpers.tensors.dumps import read_dump
from helpers.tensors.places import kind_of
from helpers.wiring.checkpoint import Target
from helpers.wiring.draft_ids import read_draft_ids
from helpers.wiring.drafter import load_target
from helpers.wiring.drafter.config import read_json
from helpers.wiring.drafts import fc_width


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    texts = streams.texts(1)
    (tmp_path / "folder").mkdir()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "p0", "input_ids": [1]}\n')
    return {
        "capture": streams.served(texts).write(tmp_path / "capture"),
        "dump": streams.write_dump(tmp_path / "dump", texts),
        "drafter": drafters.write_drafter(tmp_path / "drafter", drafters.weights(16, 3, 16), drafters.config(16)),
        "target": drafters.write_target(tmp_path / "target", 16),
        "prompts": prompts,
        "folder": tmp_path / "folder",
        "nothing": tmp_path / "models" / "drafter",
    }


def test_what_lies_there(places: dict[str, Path]) -> None:
    assert {name: kind_of(path) for name, path in places.items()} == {name: name for name in places}


READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "capture": (read_capture, "WB-CAPTURE-MISSING"),
    "dump": (read_dump, "WB-DUMP"),
    "drafter": (fc_width, "WB-DRAFT-FC"),
    "target": (lambda path: Target(path).embedding(torch.zeros(1, dtype=torch.long)), "WB-TARGET-TENSOR"),
    "prompts": (read_prompts, "WB-PROMPTS-MISSING"),
}


@pytest.mark.parametrize("wanted", READERS)
def test_a_path_of_the_boxs_and_a_swapped_one_are_told_as_such(places: dict[str, Path], wanted: str) -> None:
    read, code = READERS[wanted]

    def refused(kind: str) -> UsageError:
        with pytest.raises(UsageError, match=code) as caught:
            read(places[kind])
        return caught.value

    nothing = refused("nothing")
    assert nothing.message == f"{places['nothing']} does not exist on this machine"
    assert "workbook pull BOX" in nothing.next
    other = "drafter" if wanted != "drafter" else "dump"
    swapped = refused(other)
    assert f"belongs to --{'draft' if other == 'drafter' else 'train'}" in swapped.next
    assert "[" not in swapped.message + nothing.message, "no list as Python writes it"


def test_other_readers_of_models(places: dict[str, Path]) -> None:
    for read, code in ((read_json, "WB-MODEL-CONFIG"), (load_target, "WB-MODEL-CONFIG"), (read_draft_ids, "WB-DRAFT")):
        with pytest.raises(UsageError, match=f"{code}.*does not exist on this machine"):
            read(places["nothing"])
    with pytest.raises(UsageError, match="is a drafter's folder: it holds no tensor that could be its") as caught:
        load_target(places["drafter"])
    assert "[]" not in caught.value.message
    with pytest.raises(UsageError, match=r"is a training dump: it holds no config\.json"):
        read_json(places["dump"])


def test_a_capture_on_its_box_is_not_looked_for_here(places: dict[str, Path]) -> None:
    told = missing(places["nothing"], here=False)
    assert told.message.endswith("holds no capture.json on its box")
