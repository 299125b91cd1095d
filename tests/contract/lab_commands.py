"""`python -m remote.lab` in a folder of a test, and the processes of the lab that it started."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from ssh_servers import remote_lab

PATIENCE = 20.0


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
