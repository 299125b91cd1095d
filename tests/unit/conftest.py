"""Fixtures of the unit tier; torch is imported where one is asked for, not when pytest collects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from replay_world import World


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Models and texts that replays are held against; written once, changed by nobody."""
    from replay_world import write_world

    return write_world(tmp_path_factory.mktemp("replay"))


@pytest.fixture
def world(written: World, tmp_path: Path) -> World:
    """The same, with a folder of this test for its captures."""
    return replace(written, folder=tmp_path)
