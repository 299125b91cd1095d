"""The dump of a pair in its other formats: whole, or as it was before.

.venv/bin/python -m pytest tests/unit/test_lab_formats.py
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from three_formats import check_same_samples

from helpers import lab_dumps
from helpers.errors import UsageError
from helpers.paths import DATA
from helpers.tensors import writers
from helpers.tensors.writers import whole

OUT = ("dump-speculators", "dump-specforge")


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for name in ("target", "dump"):
        shutil.copytree(DATA / "lab" / name, tmp_path / name)
    return tmp_path


@contextmanager
def largest(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def kept(pair: Path) -> None:
    """The old folders are as they were, and nothing else is left."""
    assert sorted(path.name for path in pair.iterdir()) == sorted(["target", "dump", *OUT])
    assert [(pair / name / "old").read_text() for name in OUT] == ["old", "old"]


def old(pair: Path) -> None:
    for name in OUT:
        (pair / name).mkdir()
        (pair / name / "old").write_text("old")


def test_three_formats_of_one_dump(pair: Path) -> None:
    old(pair)
    (pair / "dump-specforge.part" / "rows_0-2000").mkdir(parents=True)  # of a call that was killed
    lab_dumps.write_formats(pair)
    assert check_same_samples(pair) == 12
    assert sorted(path.name for path in pair.iterdir()) == sorted(["target", "dump", *OUT])
    assert not (pair / "dump-speculators" / "old").exists()


def test_a_full_disk_is_said_and_costs_nothing(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old(pair)
    with largest(100_000):
        status = lab_dumps.main([str(pair)])
    assert status == 2
    assert "WB-DISK-FULL" in capsys.readouterr().err
    kept(pair)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_costs_nothing(
    pair: Path, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old(pair)
    real = writers.write_specforge

    def interrupted(*given: object, **named: object) -> object:
        os.kill(os.getpid(), number)
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(writers, "write_specforge", interrupted)
    assert lab_dumps.main([str(pair)]) == 128 + number
    assert "interrupted" in capsys.readouterr().err
    kept(pair)


def test_words_that_are_no_folder_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab_dumps.main(["--help"]) == 2
    assert "lab_dumps PAIR" in capsys.readouterr().err


@pytest.mark.parametrize("library", ["torch", "safetensors"])
def test_what_a_library_says_of_a_full_disk_is_an_error_of_ours(tmp_path: Path, library: str) -> None:
    """Neither raises OSError, and torch does not even say that the disk is full."""
    x = torch.ones(50_000)
    save = {"torch": lambda part: torch.save(x, part), "safetensors": lambda part: save_file({"x": x}, part)}[library]
    with largest(20_000), pytest.raises(UsageError) as full:
        whole(tmp_path / "x", save)
    assert full.value.code == "WB-DISK-FULL"
    with pytest.raises(UsageError) as nowhere:
        whole(tmp_path / "no" / "x", save)
    assert nowhere.value.code == "WB-LOCAL-WRITE"
    assert list(tmp_path.iterdir()) == []
