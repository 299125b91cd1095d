"""Files that a killed process leaves whole: torn lines, damaged ones, other settings, two writers.

.venv/bin/python -m pytest tests/unit/test_journal.py
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.acceptance.journal import Journal, claim, write_whole
from helpers.errors import UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Journal(tmp_path / "folder" / "rows.jsonl") as journal:
        for number in range(3):
            journal.append({"n": number, "text": "ü\u2028\ud800"})
    return tmp_path / "folder" / "rows.jsonl"


def test_what_was_appended_is_there_again(path: Path) -> None:
    with Journal(path) as journal:
        assert [row["n"] for row in journal.rows] == [0, 1, 2]
        assert journal.torn == 0


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(min_value=0, max_value=200))
def test_a_torn_file_is_a_whole_one_with_fewer_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Cut anywhere, the whole lines before the cut are there, and the next line goes where the torn one stood."""
    path = tmp_path_factory.mktemp("torn") / "rows.jsonl"
    with Journal(path) as journal:
        for number in range(4):
            journal.append({"n": number, "filler": "x" * 30})
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    whole = data.count(b"\n")
    with Journal(path) as journal:
        assert [row["n"] for row in journal.rows] == list(range(whole))
        assert journal.torn == len(data) - len(b"".join(line for line in data.splitlines(True) if line.endswith(b"\n")))
        journal.append({"n": 99})
    with Journal(path) as journal:
        assert [row["n"] for row in journal.rows] == [*range(whole), 99]


def test_garbage_at_the_end_is_torn_and_inside_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0\0\0\n")
    with Journal(path) as journal:
        assert (len(journal.rows), journal.torn) == (3, 4)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b'{"n": 1', *lines[2:]]))
    with pytest.raises(UsageError, match=r"line 2 of .* is damaged") as caught:
        Journal(path)
    assert caught.value.code == "WB-RESUME-ROWS"


def test_one_writer_at_a_time(path: Path) -> None:
    with Journal(path), pytest.raises(UsageError, match="another process") as caught:
        Journal(path)
    assert caught.value.code == "WB-RESUME-BUSY"
    Journal(path).close()


def test_a_place_that_cannot_be_written_is_told(path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written") as caught:
        Journal(path / "below-a-file" / "rows.jsonl")
    assert caught.value.code == "WB-RESUME-FOLDER"


def test_a_full_disk_is_told(path: Path) -> None:
    journal = Journal(path)
    journal._file.close()
    journal._file = Path("/dev/full").open("wb", buffering=0)  # takes no byte  # noqa: SIM115
    with pytest.raises(UsageError, match="No space left") as caught:
        journal.append({"n": 3})
    journal.close()
    assert caught.value.code == "WB-RESUME-FOLDER"
    assert len(journal.rows) == 3


def test_a_folder_belongs_to_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert claim(path, {"load": {"tokens": 8}, "arms": {"a": (1, 2)}}, schema="x/1") is False
    assert claim(path, {"load": {"tokens": 8}, "arms": {"a": [1, 2]}}, schema="x/1") is True
    with pytest.raises(UsageError, match="2 differ") as caught:
        claim(path, {"load": {"tokens": 9}, "arms": {"a": [1, 2], "b": 3}}, schema="x/1")
    assert caught.value.code == "WB-RESUME-SETTINGS"
    assert caught.value.lines == ["load.tokens: 8 there, 9 now", "arms.b: None there, 3 now"]
    with pytest.raises(UsageError, match="schema") as caught:
        claim(path, {"load": {"tokens": 8}, "arms": {"a": [1, 2]}}, schema="y/1")
    path.write_text("{")
    with pytest.raises(UsageError, match="other settings") as caught:
        claim(path, {}, schema="x/1")
    assert "cannot be read" in caught.value.lines[0]


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_whole(path, json.dumps({"n": 1}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        write_whole(path, json.dumps({"n": 2}))
    assert json.loads(path.read_text()) == {"n": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]
