"""`python -m remote.lab up|status|down`, and the same from the laptop's side: one lab at a time, found again.

pytest tests/contract/test_lab_lifecycle.py
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from lab_commands import lab_processes, refused, ssh, up
from serving_support import SERVER, start
from ssh_servers import ROOT, remote_lab
from typer.testing import CliRunner

from helpers.box import connect
from helpers.box.lab import lab_down, lab_is_up, lab_status, lab_up
from helpers.commands import lab as commands
from helpers.errors import BoxUnreachable, UsageError
from helpers.serving import find_runs


def test_second_up_finds_the_first(folder: Path) -> None:
    first, second = up(folder), up(folder)
    assert (first.pop("started"), second.pop("started")) == (True, False)
    assert first == second
    status = json.loads(remote_lab(folder, "status", "--json").stdout)
    assert status["pid"] == first["pid"]
    assert remote_lab(folder, "status").stdout.startswith(f"lab is up: port {first['port']}")
    assert refused(folder, "up", "--engine", "none", "--port", "1025") == (2, "WB-LAB-ALREADY-UP")
    assert refused(folder, "up", "--engine", "0.5.9") == (2, "WB-LAB-ALREADY-UP")
    assert up(folder, "--tp", "2")["tp"] == 2
    assert json.loads(remote_lab(folder, "status", "--json").stdout)["tp"] == 2


def test_ups_at_once_make_one_lab(folder: Path) -> None:
    argv = [sys.executable, "-m", "remote.lab", "up", "--engine", "none", "--json"]
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(folder)}
    ups = [subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(4)]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in ups]
    assert [process.returncode for process in ups] == [0] * 4
    assert sum(answer["started"] for answer in answers) == 1
    assert len({(answer["pid"], answer["port"]) for answer in answers}) == 1


def test_status_and_down_of_a_lab_that_is_down(folder: Path) -> None:
    assert refused(folder, "status") == (3, "WB-LAB-NOT-UP")
    assert json.loads(remote_lab(folder, "down", "--json").stdout) == {"was_up": False, "ended": 0}
    assert not folder.exists()


def test_a_server_that_runs_when_the_lab_goes_down_was_stopped_and_did_not_die(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(folder)
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(folder))
    with connect("lab") as box:
        died = start(box, "died", "raise MemoryError")
        list(died.logs(follow=True))
        start(box, "served", SERVER, "60")
    remote_lab(folder, "down")
    up(folder)
    with connect("lab") as box:
        ends = {run.id: (run.state, str(run.ending)) for run in find_runs(box, endings=True)}
    assert ends["died"] == ("dead", "WB-SERVE-OUT-OF-MEMORY: out of memory")
    assert ends["served"][0] == "stopped"
    assert re.fullmatch(r"stopped by \S+ \(lab down\), \S+Z", ends["served"][1])


def test_taken_port_leaves_nothing(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refused(folder, "up", "--engine", "none", "--port", port) == (2, "WB-LAB-PORT-TAKEN")
    assert not folder.exists()
    assert lab_processes(folder) == []
    assert up(folder, "--port", port)["port"] == int(port)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--engine", "0.5.23"], "WB-LAB-ENGINE-UNKNOWN"),
        (["--engine", "none", "--tp", "3"], "WB-LAB-TP"),
        (["--engine", "none", "--tp", "0"], "WB-LAB-TP"),
        (["--engine", "none", "--tp", "-1"], "WB-LAB-TP"),
        (["--engine", "none", "--port", "70000"], "WB-USAGE"),
        (["--colour"], "WB-USAGE"),
    ],
)
def test_bad_usage_does_nothing(folder: Path, arguments: list[str], code: str) -> None:
    assert refused(folder, "up", *arguments) == (2, code)
    assert not folder.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file" / "lab", "up", "--engine", "none") == (2, "WB-LAB-FOLDER")


@pytest.mark.parametrize("kilobytes", [0, 64])
def test_a_disk_that_takes_no_more(folder: Path, kilobytes: int) -> None:
    """With 0 nothing can be written; with 64 some of SGLang's files cannot, of which the first is told."""
    script = f"ulimit -f {kilobytes}; exec {shlex.quote(sys.executable)} -m remote.lab up --json"
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(folder)}
    found = subprocess.run(["bash", "-c", script], env=env, cwd=ROOT, capture_output=True, text=True)
    error = json.loads(found.stdout)["error"]
    assert (found.returncode, error["code"]) == (2, "WB-LAB-FOLDER")
    assert ("File too large" if kilobytes else "cannot be filled: ") in error["message"]
    assert len(found.stderr) < 2000
    assert "Traceback" not in found.stderr
    assert lab_processes(folder) == []
    assert not list(folder.rglob(".sglang.*"))


def test_the_command_by_hand_can_be_pasted(folder: Path) -> None:
    up(folder)
    shown = remote_lab(folder, "status").stdout.splitlines()[-1]
    assert shlex.split(shown) == ["ssh", "-F", str(folder / "ssh_config"), "lab"]


def test_a_folder_that_python_would_cut_in_two(tmp_path: Path) -> None:
    """In PYTHONPATH it would be two folders, and a patch would go into the installed SGLang."""
    assert refused(tmp_path / "a:b", "up", "--engine", "none") == (2, "WB-LAB-FOLDER")
    assert list(tmp_path.iterdir()) == []


def test_a_checkout_that_python_would_cut_in_two(tmp_path: Path) -> None:
    checkout = tmp_path / "c:d"
    shutil.copytree(ROOT / "remote", checkout / "remote", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(checkout)!r}); from remote.lab.state import lab_paths; lab_paths()"
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(tmp_path / "lab")}
    found = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert f"LabError: WB-LAB-FOLDER: the checkout {checkout}" in found.stderr


def test_state_survives_down_and_up(folder: Path) -> None:
    """With the real checkout: what was patched there stays so. And the log has no word of what was run."""
    first = json.loads(remote_lab(folder, "up", "--json").stdout)
    keys = {path.name: path.read_bytes() for path in (folder / "keys").iterdir()}
    patched = folder / "home" / "sglang" / "python" / "sglang" / "srt" / "models" / "deepseek_v2.py"
    assert len(patched.read_text().splitlines()) == 2986
    patched.write_text("# patched\n")
    ssh(folder, "echo kept > note; : token-4711")
    assert ssh(folder, "ls ~/models/target/config.json ~/models/drafter/config.json").count("config.json") == 2
    python = "import importlib.util as u; print(u.find_spec('sglang').origin, u.find_spec('sglang.version').origin)"
    assert ssh(folder, f'python3 -c "{python}"').count(str(folder / "home" / "sglang")) == 2
    assert json.loads(remote_lab(folder, "down", "--json").stdout) == {"was_up": True, "ended": 0}
    assert lab_processes(folder) == []
    assert not (folder / "lab.json").exists()
    second = json.loads(remote_lab(folder, "up", "--json").stdout)
    assert second["started"]
    assert second["pid"] != first["pid"]
    assert ssh(folder, "cat note") == "kept\n"
    assert patched.read_text() == "# patched\n"
    assert {path.name: path.read_bytes() for path in (folder / "keys").iterdir()} == keys
    log = (folder / "log").read_text()
    assert "listens on port" in log
    assert "stops: signal SIGTERM" in log
    assert "token-4711" not in log


def test_helpers_start_it_from_any_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    assert not lab_is_up()
    with pytest.raises(BoxUnreachable, match="WB-LAB-NOT-UP"):
        lab_status()
    with pytest.raises(UsageError, match="WB-LAB-TP"):
        lab_up(engine="none", tp=3)
    record = lab_up(engine="none")
    assert record["started"]
    assert lab_is_up()
    with connect("lab") as box:
        assert box.run(["pwd"]).stdout.strip() == record["home"]
    assert lab_down() == {"was_up": True, "ended": 0}
    assert not lab_is_up()


def test_the_command_and_its_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(folder))
    runner = CliRunner()
    started = runner.invoke(commands.app, ["up", "--json"])
    assert started.exit_code == 0
    assert "copying SGLang 0.5.9" in started.stderr  # it can take longer than two seconds
    assert json.loads(started.stdout)["alias"] == "lab"
    assert "lab is up: port" in runner.invoke(commands.app, ["status"]).stdout
    assert runner.invoke(commands.app, ["down"]).stdout == "lab is down\n"
    assert runner.invoke(commands.app, ["down"]).stdout == "lab was not up\n"
