"""The lab of the session (tests/conftest.py): the real SGLang behind the lab's SSH server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.acceptance import Prompt, read_prompts
from helpers.box import Box, connect
from helpers.paths import DATA
from helpers.serving import Profile, load_profiles


@pytest.fixture(scope="session")
def box(lab_home: Path) -> Iterator[Box]:
    with connect("lab") as connected:
        yield connected


@pytest.fixture(scope="session")
def profiles() -> dict[str, Profile]:
    return load_profiles()


@pytest.fixture(scope="session")
def prompts() -> list[Prompt]:
    """Eight held-out prompts: enough for some fifty verify steps at 24 new tokens."""
    return read_prompts(DATA / "prompts" / "lab-heldout.jsonl", limit=8)


@pytest.fixture(scope="session")
def permuted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drafter with the column blocks of its fc in reverse: a feed that is right meets the wrong columns."""
    folder = tmp_path_factory.mktemp("permuted") / "drafter"
    shutil.copytree(DATA / "lab" / "drafter", folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["fc.weight"] = torch.cat(tensors["fc.weight"].chunk(3, dim=1)[::-1], dim=1).contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
