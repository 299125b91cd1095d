"""Which capture of an investigation is the one that is asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import streams

from helpers.acceptance import Prompt
from helpers.serving import Profile, get_profile
from helpers.serving.captured import is_of, newest_first

PROFILE = get_profile("right")
TEXTS = streams.texts(2)
PROMPTS = [Prompt(f"p{i}", tuple(text[: len(text) // 2].tolist())) for i, text in enumerate(TEXTS)]
ABOUT = {"profile": "right", "patches": [], "aux_layer_ids": [1, 4, 8], "sampling": {"max_new_tokens": 24}}


def made(path: Path, **change: Any) -> Path:
    capture = streams.served(TEXTS)
    capture.info |= ABOUT | change
    return capture.write(path)


def test_the_same_configuration_and_tokens(tmp_path: Path) -> None:
    assert is_of(made(tmp_path / "c"), PROFILE, PROMPTS, 24)


@pytest.mark.parametrize(
    "change",
    [
        {"profile": "wrong"},
        {"aux_layer_ids": [0, 3, 7]},
        {"patches": ["capture-embedding"]},
        {"sampling": {"max_new_tokens": 1}},
        {"sampling": {}},
        {"sampling": {"max_new_tokens": 24, "natural_end": True}},
        {"engine": {"name": "sglang", "version": "0.5.10"}},
        {"engine": {"name": "sglang", "version": "0.5.9", "base": "0.5.9"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_configuration(tmp_path: Path, change: dict[str, Any]) -> None:
    assert not is_of(made(tmp_path / "c", **change), PROFILE, PROMPTS, 24)


def test_another_number_of_ranks(tmp_path: Path) -> None:
    assert not is_of(made(tmp_path / "c"), PROFILE.model_copy(update={"tp": 2}), PROMPTS, 24)


def test_other_tokens(tmp_path: Path) -> None:
    path = made(tmp_path / "c")
    first = PROMPTS[0]
    other = Prompt("p0", (*first.input_ids[:-1], (first.input_ids[-1] + 1) % 1024))
    assert not is_of(path, PROFILE, [other, PROMPTS[1]], 24)
    assert not is_of(path, PROFILE, [Prompt("p0", first.input_ids[:-1]), PROMPTS[1]], 24)
    assert not is_of(path, PROFILE, PROMPTS[:1], 24)


def test_a_profile_that_takes_the_drafters_own_ids_takes_any(tmp_path: Path) -> None:
    own: Profile = PROFILE.model_copy(update={"aux_layer_ids": None})
    assert is_of(made(tmp_path / "c", aux_layer_ids=[2, 3, 4]), own, PROMPTS, 24)


def test_a_broken_capture_is_none(tmp_path: Path) -> None:
    path = made(tmp_path / "c")
    info = json.loads((path / "capture.json").read_text())
    (path / "capture.json").write_text(json.dumps(info)[:-20])
    assert not is_of(path, PROFILE, PROMPTS, 24)


def test_the_newest_comes_first(tmp_path: Path) -> None:
    paths = [made(tmp_path / name) for name in ("a", "b", "c")]
    for age, path in zip((30, 10, 20), paths, strict=True):
        os.utime(path / "capture.json", (1e9 - age, 1e9 - age))
    (tmp_path / "no-capture").mkdir()
    assert [path.name for path in newest_first(tmp_path)] == ["b", "c", "a"]
    assert newest_first(tmp_path / "missing") == []
