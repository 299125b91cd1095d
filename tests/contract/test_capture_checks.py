"""What a capture refuses before a server hears of it.

.venv/bin/python -m pytest tests/contract/test_capture_checks.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.acceptance import Prompt
from helpers.box import Box
from helpers.errors import RemoteFailed, UsageError
from helpers.serving import Profile, Run, RunRecord
from helpers.serving.capture import capture
from helpers.serving.records import Engine

LAYERS, VOCABULARY = 4, 32


@pytest.fixture(params=["plain", "wrapped"])
def run(box: Box, there: Path, request: pytest.FixtureRequest) -> Run:
    """The record of a run whose model is a folder on the box; no server answers on its port."""
    config: dict[str, Any] = {"num_hidden_layers": LAYERS, "vocab_size": VOCABULARY}
    (there / "config.json").write_text(json.dumps(config if request.param == "plain" else {"text_config": config}))
    record = RunRecord(
        id="none-1",
        profile=Profile(name="none", engine="sglang==0.5.9", model=str(there), capture=True),
        argv=(),
        env={},
        host="127.0.0.1",
        port=9,
        owner="me",
        engine=Engine(name="sglang", version="0.5.9", checkout="", python="python3"),
        code="",
        pid=1,
        pgid=1,
        start_time=0,
        boot_id="",
        started="",
        schema="workbook.run/1",
    )
    return Run(box, record)


def refusal(run: Run, out: Path, ids: tuple[int, ...] = (1, 2), **how: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        capture(run.box, run, [Prompt("p", ids)], out=out, progress=False, **how)
    return caught.value


@pytest.mark.parametrize("ids", [(0, VOCABULARY), (-1,)])
def test_ids_of_another_model(run: Run, tmp_path: Path, ids: tuple[int, ...]) -> None:
    """The likeliest mistake with a foreign dump, and SGLang dies of it."""
    error = refusal(run, tmp_path / "new" / "c", ids)
    assert error.code == "WB-PROMPTS-VOCABULARY"
    assert "has ids 0 to 31" in error.message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("wanted", [[0, 99], [LAYERS + 1], [-1, 0]])
def test_boundaries_that_the_model_has_not(run: Run, tmp_path: Path, wanted: list[int]) -> None:
    assert refusal(run, tmp_path / "c", boundaries=wanted).code == "WB-CAPTURE-BOUNDARIES"


@pytest.mark.parametrize("what", ["/proc/nope/c9", "file/c", "n" * 300])
def test_a_place_that_cannot_be_written(run: Run, tmp_path: Path, what: str) -> None:
    (tmp_path / "file").touch()
    error = refusal(run, tmp_path / what)
    assert (error.code, error.next) == ("WB-CAPTURE-OUT", "--out with another folder")
    assert os.listdir(tmp_path) == ["file"]


def test_a_capture_that_fits_on_no_disk(run: Run, tmp_path: Path) -> None:
    """Asked of the real disks, before the server is: a model whose every row takes a terabyte."""
    folder = Path(run.profile.model)
    config = json.loads((folder / "config.json").read_text())
    (config.get("text_config") or config)["hidden_size"] = 10**11
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(RemoteFailed) as caught:
        capture(run.box, run, [Prompt("p", (1, 2))], out=tmp_path / "new" / "c", progress=False)
    assert caught.value.code == "WB-DISK-FULL"
    assert f"the disk of {run.folder} has" in caught.value.message
    assert "free space there" in caught.value.expected
    assert list((tmp_path / "new").iterdir()) == []
