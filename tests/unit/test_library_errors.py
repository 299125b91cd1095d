"""What a library says of a user's file, in words for people: no [Errno 2], no class of Python's, no path twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.acceptance.grid import read_grid
from helpers.acceptance.sweep_results import read_rows
from helpers.errors import UsageError
from helpers.serving.profile import load_profiles
from helpers.wiring.draft_ids import read_draft_ids
from helpers.wiring.drafter.config import read_json


@pytest.mark.parametrize("read", [read_grid, read_rows, load_profiles, read_draft_ids, read_json])
@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path, read: Callable[[Path], object], there: bool) -> None:
    path = tmp_path / "my.toml"
    if there:
        path.mkdir()
        (path / "config.json").mkdir()
        (path / "results.jsonl").mkdir()
    with pytest.raises(UsageError) as caught:
        read(path)
    assert "[Errno" not in caught.value.message
    assert caught.value.message.count("my.toml") == 1


@pytest.mark.parametrize("value", ["3", '["a"]'])
def test_a_value_of_another_kind(tmp_path: Path, value: str) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(f"profiles = {value}\n")
    with pytest.raises(UsageError, match="profiles: Input is not a valid path") as caught:
        read_grid(grid)
    assert "<class" not in caught.value.message
