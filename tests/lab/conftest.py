"""One lab for the whole tier: the real SGLang behind the lab's SSH server, in a folder of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from leftovers import gone
from safetensors.torch import load_file, save_file

from helpers.acceptance import Prompt, read_prompts
from helpers.box import Box, connect
from helpers.box.lab import lab_down, lab_up
from helpers.paths import DATA
from helpers.serving import Profile, load_profiles


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab that is up; whatever ran in it is gone afterwards."""
    home = tmp_path_factory.mktemp("lab")
    before = os.environ.get("WORKBOOK_LAB_HOME")
    os.environ["WORKBOOK_LAB_HOME"] = str(home)
    try:
        lab_up(progress=False)
        yield home
    finally:
        lab_down()
        if before is None:
            del os.environ["WORKBOOK_LAB_HOME"]
        else:
            os.environ["WORKBOOK_LAB_HOME"] = before
    assert gone(str(home)) == []


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
