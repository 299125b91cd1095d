"""The lab of the session (tests/conftest.py): the real SGLang behind the lab's SSH server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
