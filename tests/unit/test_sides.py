"""Which side is as the drafter's config asks: neither is right by habit.

.venv/bin/python -m pytest tests/unit/test_sides.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streams
import torch
from safetensors.torch import save_file

from helpers.errors import UsageError
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose


def drafter(folder: Path, config: dict[str, object] | None) -> Path:
    folder.mkdir()
    save_file({"fc.weight": torch.zeros(streams.HIDDEN, 3 * streams.HIDDEN)}, folder / "model.safetensors")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def asking(ids: list[int]) -> dict[str, object]:
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}}


def look(tmp_path: Path, fed: tuple[int, ...], trained: tuple[int, ...], config: dict[str, object] | None) -> Diagnosis:
    texts = streams.texts()
    capture = read_capture(streams.served(texts, fed).write(tmp_path / "c"))
    dump = read_dump(streams.write_dump(tmp_path / "d", texts, trained))
    return diagnose(capture, dump, convention=SGLANG_059_DEEPSEEK, draft=drafter(tmp_path / "drafter", config))


CASE, RIGHT = (0, 2, 5), (2, 5, 9)


@pytest.mark.parametrize(
    ("fed", "trained", "ids", "agrees"),
    [
        (CASE, RIGHT, [1, 4, 8], "trained"),  # the case: serving is at fault
        (RIGHT, CASE, [1, 4, 8], "served"),  # its mirror: the same difference, and training is
        (CASE, RIGHT, [-1, 1, 4], "served"),  # a config that was "mended": it vouches for the wrong side, and is named
        (RIGHT, RIGHT, [1, 4, 8], "both"),
        (RIGHT, RIGHT, [0, 3, 7], "neither"),
    ],
)
def test_the_config_is_a_third_witness(
    tmp_path: Path, fed: tuple[int, ...], trained: tuple[int, ...], ids: list[int], agrees: str
) -> None:
    found = look(tmp_path, fed, trained, asking(ids))
    assert found.verdict == ("match" if fed == trained else "mismatch")
    config = found.draft_config
    assert config is not None
    assert (config.agrees_with, config.aux_layer_ids) == (agrees, ids)
    assert config.boundaries == [i + 1 for i in ids]
    assert found.to_json()["draft_config"]["agrees_with"] == agrees


def test_the_mirror_is_mended_from_either_side(tmp_path: Path) -> None:
    found = look(tmp_path, RIGHT, CASE, asking([1, 4, 8]))
    assert found.fix is not None
    assert found.fix.aux_layer_ids == [-1, 1, 4]  # as ever: what would feed what training captured
    assert "or train again on the boundaries [2, 5, 9]" in found.fix.note
    assert found.draft_config is not None
    assert "serving is so, training ([0, 2, 5]) is not" in found.draft_config.note


def test_the_case_names_no_second_way(tmp_path: Path) -> None:
    found = look(tmp_path, CASE, RIGHT, asking([1, 4, 8]))
    assert found.fix is not None
    assert found.fix.aux_layer_ids == [1, 4, 8]
    assert "train again" not in found.fix.note


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "has no config.json"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}, "names no ids in eagle_config"),  # SGLang ignores these
    ],
)
def test_no_witness_is_said(tmp_path: Path, config: dict[str, object] | None, said: str) -> None:
    found = look(tmp_path, CASE, RIGHT, config)
    assert found.draft_config is not None
    assert found.draft_config.agrees_with is None
    assert said in found.draft_config.note


def test_a_side_that_is_not_known_whole_is_not_judged(tmp_path: Path) -> None:
    texts = streams.texts()
    made = streams.served(texts, CASE)
    made.ranks[0]["feed"][:, : streams.HIDDEN] = torch.randn(made.ranks[0]["feed"].shape[0], streams.HIDDEN)
    capture = read_capture(made.write(tmp_path / "c"))
    dump = read_dump(streams.write_dump(tmp_path / "d", texts))
    draft = drafter(tmp_path / "drafter", asking([1, 4, 8]))
    found = diagnose(capture, dump, convention=SGLANG_059_DEEPSEEK, draft=draft)
    assert found.draft_config is not None
    assert found.draft_config.agrees_with is None
    assert diagnose(capture, dump, draft=draft).draft_config.boundaries is None  # type: ignore[union-attr]
    assert diagnose(capture, dump).draft_config is None


def test_a_broken_config_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        look(tmp_path, CASE, RIGHT, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": "1,4,8"}})
    assert caught.value.code == "WB-DRAFT-CONFIG"
