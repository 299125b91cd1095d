"""`python -m remote.lab up|status|down`: one lab at a time, found again, and nothing left whatever ends it.

pytest tests/contract/test_lab_lifecycle.py
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving_support import SERVER, start
from ssh_servers import ROOT, remote_lab
from typer.testing import CliRunner

from helpers.box import connect
from helpers.box.lab import lab_down, lab_is_up, lab_status, lab_up
from helpers.commands import lab as commands
from helpers.errors import BoxUnreachable, UsageError
from helpers.serving import find_runs

PATIENCE = 20.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a lab that is not there yet; its name has a blank, as a checkout's may."""
    folder = tmp_path / "a lab"
    yield folder
    remote_lab(folder, "down")


def up(folder: Path, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(remote_lab(folder, "up", "--engine", "none", "--json", *arguments).stdout)
    return answer


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and error code of a command that fails; its error has all that an error has to say."""
    result = remote_lab(folder, *arguments, "--json", check=False)
    error = json.loads(result.stdout)["error"]
    assert all(error[part] for part in ("code", "message", "expected", "next"))
    assert error["code"] in result.stderr
    assert "Traceback" not in result.stderr
    return result.returncode, error["code"]


def ssh(folder: Path, command: str) -> str:
    argv = ["ssh", "-F", folder / "ssh_config", "lab", command]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout


def detached_sleeps(folder: Path) -> list[int]:
    """Starts processes in the lab that left their session, in the ways in which servers do; returns their pids."""
    sleep = "sleep 300 </dev/null >/dev/null 2>&1 & echo $!"
    return [
        int(ssh(folder, command))
        for command in (
            f"setsid {sleep}",
            f"env -i setsid {sleep}",
            f"trap '' TERM; {sleep}",
        )
    ]


def lab_processes(folder: Path) -> list[int]:
    """Guardians, daemons and session processes of this lab."""
    found = []
    for process in psutil.process_iter():
        try:
            environ = process.environ()
        except (psutil.Error, OSError):
            continue
        if str(folder) in (environ.get("WORKBOOK_LAB"), environ.get("WORKBOOK_LAB_DAEMON")):
            found.append(process.pid)
    return found


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


# --- up, status, down --------------------------------------------------------------------------------------------


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


# --- nothing stays behind ----------------------------------------------------------------------------------------


def test_down_ends_what_the_sessions_started(folder: Path) -> None:
    up(folder)
    pids = detached_sleeps(folder)
    assert all(map(alive, pids))
    assert json.loads(remote_lab(folder, "down", "--json").stdout)["was_up"]
    assert not any(map(alive, pids))


@pytest.mark.parametrize("victims", [["pid"], ["guardian_pid"], ["guardian_pid", "pid"]])
def test_a_crash_leaves_nothing_running(folder: Path, victims: list[str]) -> None:
    record = up(folder)
    pids = detached_sleeps(folder)
    for victim in victims:
        os.kill(record[victim], signal.SIGKILL)
    if len(victims) == 1:  # the one cleans up after the other
        assert wait_until(lambda: not any(map(alive, pids)) and not (folder / "lab.json").exists())
        assert wait_until(lambda: lab_processes(folder) == [])
        assert refused(folder, "status") == (3, "WB-LAB-NOT-UP")
    else:  # nobody is left to clean up, until the next command looks
        assert refused(folder, "status") == (3, "WB-LAB-NOT-UP")
        pids = [pid for pid in pids if pid in lab_processes(folder)]
        assert pids
    assert up(folder)["started"]
    assert not any(map(alive, pids))


def test_up_right_after_a_crash_is_not_hit_by_its_cleaning(folder: Path) -> None:
    record = up(folder)
    detached_sleeps(folder)
    os.kill(record["pid"], signal.SIGKILL)
    assert up(folder)["started"]
    pid = detached_sleeps(folder)[0]
    time.sleep(0.5)
    assert alive(pid)
    assert len(json.loads(remote_lab(folder, "status", "--json").stdout)["alias"]) == 3


def test_a_lab_whose_folder_was_deleted_is_ended(folder: Path) -> None:
    record = up(folder)
    shutil.rmtree(folder)
    assert refused(folder, "status") == (3, "WB-LAB-NOT-UP")
    assert up(folder)["started"]
    assert not alive(record["pid"])
    assert not alive(record["guardian_pid"])


def test_a_lab_that_does_not_answer_is_not_ended_unasked(folder: Path) -> None:
    """Its key is gone: nobody gets in, though it runs, and with it whatever was started in it."""
    record = up(folder)
    pid = int(ssh(folder, "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!"))
    Path(record["client_key"]).unlink()
    assert refused(folder, "status") == (3, "WB-LAB-SILENT")
    assert refused(folder, "up", "--engine", "none") == (4, "WB-LAB-SILENT")
    assert alive(pid)
    assert json.loads(remote_lab(folder, "down", "--json").stdout)["was_up"]
    assert not alive(pid)


def test_a_copied_folder_is_another_lab(folder: Path, tmp_path: Path) -> None:
    record = up(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    try:
        assert refused(copy, "status") == (3, "WB-LAB-NOT-UP")
        assert not json.loads(remote_lab(copy, "down", "--json").stdout)["was_up"]
        assert alive(record["pid"])
        assert up(copy)["home"] == str(copy / "home")
    finally:
        remote_lab(copy, "down")
    assert not up(folder)["started"]


def test_a_moved_folder_stops_its_lab(folder: Path, tmp_path: Path) -> None:
    record = up(folder)
    moved = folder.rename(tmp_path / "moved")
    assert refused(moved, "status") == (3, "WB-LAB-SILENT")
    assert json.loads(remote_lab(moved, "down", "--json").stdout)["was_up"]
    assert not alive(record["pid"])


def test_a_stranger_with_the_pid_is_left_alone(folder: Path) -> None:
    record = up(folder)
    remote_lab(folder, "down")
    with subprocess.Popen(["sleep", "300"]) as stranger:
        try:
            forged = {key: value for key, value in record.items() if key not in ("started", "warnings")}
            forged |= {"pid": stranger.pid, "guardian_pid": stranger.pid}
            (folder / "lab.json").write_text(json.dumps(forged))
            assert refused(folder, "status") == (3, "WB-LAB-NOT-UP")
            assert not json.loads(remote_lab(folder, "down", "--json").stdout)["was_up"]
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_up_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    """The signal comes when the lab's processes are there already and `up` still waits for them."""
    argv = [sys.executable, "-m", "remote.lab", "up", "--engine", "none"]
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(folder)}
    with subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert wait_until(lambda: lab_processes(folder) != [])
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    assert b"Traceback" not in stderr
    assert wait_until(lambda: lab_processes(folder) == [])
    assert not (folder / "lab.json").exists()
    assert up(folder)["started"]


def test_interrupted_while_it_copies_sglang(folder: Path) -> None:
    argv = [sys.executable, "-m", "remote.lab", "up"]
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(folder)}
    with subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        parent = folder / "home" / "sglang" / "python"
        assert wait_until(lambda: parent.exists() and any(parent.iterdir()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert list(parent.iterdir()) == []
    assert lab_processes(folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_ends_the_first_up_leaves_no_half_copy(folder: Path, number: signal.Signals) -> None:
    """Ctrl-C in a terminal reaches the command and the lab's own process, which the command then ends as well."""
    argv = [sys.executable, "-m", "helpers.cli", "lab", "up"]
    env = {**os.environ, "WORKBOOK_LAB_HOME": str(folder)}
    with subprocess.Popen(argv, env=env, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True) as process:
        parent = folder / "home" / "sglang" / "python"
        assert wait_until(lambda: parent.exists() and any(parent.iterdir()))
        os.killpg(process.pid, number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert stderr.endswith(b"interrupted\n")
    assert b"Traceback" not in stderr
    assert wait_until(lambda: lab_processes(folder) == [])
    assert list(parent.iterdir()) == []


# --- from the laptop's side --------------------------------------------------------------------------------------


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
