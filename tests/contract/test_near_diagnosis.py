"""`workbook diagnose --near`: the capture stays on the box, over a real connection."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import ssh_servers
import streams

from helpers.box import Box
from helpers.cli import main
from helpers.errors import UsageError, WorkbookError
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.diagnosis import diagnose
from helpers.wiring.near import open_on


@pytest.fixture
def capture(there: Path) -> Path:
    """A miswired capture on the box, two equal ranks."""
    return streams.served(streams.texts(4, length=400), (0, 2, 5), ranks=2).write(there / "capture")


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return streams.write_dump(tmp_path / "dump", streams.texts(4, length=400))


def test_the_same_over_a_connection(box: Box, capture: Path, train: Path) -> None:
    dump = read_dump(train)
    there = open_on(box, str(capture), python=sys.executable)
    found, whole = diagnose(there, dump), diagnose(read_capture(capture), dump)
    assert found.codes() == whole.codes() == ["slot-embedding", "slot-wrong", "slot-wrong"]
    assert found.slots[1].served.boundary == 2
    assert found.ranks.equal
    assert there.traffic["share"] < 0.1
    assert there.traffic["of"] == (capture / "rank0.safetensors").stat().st_size


def test_what_is_wrong_with_it_is_told_as_of_a_capture_here(box: Box, capture: Path, tmp_path: Path) -> None:
    def code(path: Path, python: str | None = sys.executable) -> str:
        with pytest.raises(WorkbookError) as caught:
            open_on(box, str(path), python=python)
        assert isinstance(caught.value, UsageError) == (caught.value.code != "WB-NEAR-DATA")
        return caught.value.code

    file = capture / "rank1.safetensors"
    whole = file.read_bytes()
    assert code(capture.parent / "none") == "WB-CAPTURE-MISSING"
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert code(capture) == "WB-CAPTURE-TAMPERED"
    file.write_bytes(b"x" + whole[1:])
    assert code(capture) == "WB-CAPTURE-TAMPERED"
    file.write_bytes(whole[:-1])
    assert code(capture) == "WB-CAPTURE-TRUNCATED"
    file.unlink()
    assert code(capture) == "WB-CAPTURE-RANK-MISSING"
    (capture / "capture.json").write_text("{")
    assert code(capture) == "WB-CAPTURE-SCHEMA"
    assert code(capture, "/no/such/python") == "WB-NEAR-DATA"


@pytest.mark.full
def test_the_command(
    lab_server: ssh_servers.SshServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    train: Path,
) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(lab_server.home.parent))
    streams.served(streams.texts(4, length=400)).write(lab_server.home / "near" / "capture")

    def call(*arguments: str) -> int:
        with pytest.raises(SystemExit) as caught:
            main(["diagnose", "--train", str(train), "--near", "--python", sys.executable, *arguments])
        return int(str(caught.value.code or 0))

    assert call("--served", "lab:~/near/capture", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert told["verdict"] == "match"
    assert told["near"]["bytes"] < 0.1 * told["near"]["of"]
    assert call("--served", "lab:~/near/capture") == 0
    assert "bytes travelled" in capfd.readouterr().out
    assert call("--served", "near/capture", "--json") == 2
    assert json.loads(capfd.readouterr().out)["error"]["code"] == "WB-USAGE"
