"""`workbook run|pull|push` against the lab's server: output, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import ssh_servers

from helpers.cli import main


@pytest.fixture(autouse=True)
def _lab(lab_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(lab_server.home.parent))


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(str(caught.value.code or 0))


def test_run_passes_output_and_exit_status_on(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("run", "lab", "--", "sh", "-c", "echo out; echo err >&2; exit 9") == 9
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("out\n", "err\n")


def test_run_with_json_gives_the_record_with_secrets_masked(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("run", "lab", "--json", "--", "echo", "--api-key", "hunter2", "--json") == 0
    record = json.loads(capfd.readouterr().out)
    assert record["argv"] == ["echo", "--api-key", "***", "--json"]
    assert "hunter2" not in record["command"]
    assert record["stdout"] == "--api-key hunter2 --json\n"
    assert (record["exit_status"], record["box"]) == (0, "lab")


def test_push_and_pull(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"data")
    assert call("push", str(tmp_path / "x"), "lab", "~/cli/x", "--json") == 0
    pushed = json.loads(capfd.readouterr().out)
    assert call("pull", "lab", "cli/x", str(tmp_path / "y"), "--json") == 0
    pulled = json.loads(capfd.readouterr().out)
    assert (tmp_path / "y").read_bytes() == b"data"
    assert pushed["sha256"] == pulled["sha256"]
    assert (pulled["bytes"], pulled["sent"], pulled["not_sent"], pulled["verified"]) == (4, 4, 0, "sha256")
    assert call("pull", "lab", "cli/none", str(tmp_path / "z"), "--json") == 4
    assert json.loads(capfd.readouterr().out)["error"]["code"] == "WB-FILE-MISSING"


def test_exit_codes_of_a_box_out_of_reach(capfd: pytest.CaptureFixture[str]) -> None:
    port = ssh_servers.free_port()
    assert call("run", f"me@127.0.0.1:{port}", "--", "true") == 3
    assert "WB-SSH-CONNECT" in capfd.readouterr().err
    assert call("run", "lab:no-port", "--", "true") == 2
