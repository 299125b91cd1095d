"""Nothing of a lab stays behind, whatever ends it: down, a crash, a deleted folder, an interrupt.

pytest tests/contract/test_lab_endings.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_commands import alive, detached_sleeps, lab_processes, refused, ssh, up, wait_until
from ssh_servers import ROOT, remote_lab


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
