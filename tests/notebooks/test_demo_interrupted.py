"""Ctrl-C in the middle of `make demo`: nothing goes on running, and the box's source is as it was."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from demo_run import ROOT, environment
from leftovers import gone, processes_with

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


# The moments differ in what has to be put back: nothing yet; a server that loads; a patch and a server under load.
@pytest.mark.parametrize("moment", ["demo: the lab", "baseline-", "request 1 of 32", "miswired: request"])
def test_ctrl_c_leaves_nothing(moment: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["make", "demo"],
            cwd=ROOT,
            env=environment(tmp_path),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's foreground group: Ctrl-C reaches all of it
        )
    end = time.monotonic() + 400
    while moment not in log.read_text():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=90) != 0
    said = log.read_text()
    assert "interrupted; no process is left" in said
    assert "Traceback" not in said
    assert gone(str(tmp_path)) == []
    source = tmp_path / "lab/home/sglang/python/sglang/srt/models/deepseek_v2.py"
    # The first moment is before the lab has a copy.
    assert not source.exists() or "capture_embedding_for_eagle3" not in source.read_text()


def test_a_lab_that_was_up_before_stays_up(tmp_path: Path) -> None:
    workbook = [str(ROOT / ".venv/bin/workbook"), "lab"]
    subprocess.run([*workbook, "up"], env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(ROOT / ".venv/bin/python"), "-m", "helpers.demo"],
            cwd=ROOT,
            env=environment(tmp_path),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + 200
    while "ready, port" not in log.read_text():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < end
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=90) == 130
    subprocess.run([*workbook, "status"], env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert [p for p in processes_with(str(tmp_path)) if "sglang" in p] == []
    subprocess.run([*workbook, "down"], env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert gone(str(tmp_path)) == []


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "found" / "demo"
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [str(ROOT / ".venv/bin/python"), "-m", "helpers.demo"]
        second = subprocess.run(
            command, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=60
        )
    assert second.returncode == 2
    assert "WB-DEMO-RUNNING" in second.stderr
    assert processes_with(str(tmp_path)) == []


def test_a_killed_demo_ends_with_its_lab_stopped_by_the_next_down(tmp_path: Path) -> None:
    """kill -9 gives no chance to clean up: the lab stays, as servers on a box should, and `lab down` ends all of it."""
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(ROOT / ".venv/bin/python"), "-m", "helpers.demo"],
            cwd=ROOT,
            env=environment(tmp_path),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    end = time.monotonic() + 200
    while "request 1 of 32" not in log.read_text():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < end
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert processes_with(str(tmp_path)) != []
    down = [str(ROOT / ".venv/bin/workbook"), "lab", "down"]
    subprocess.run(down, env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert gone(str(tmp_path)) == []
