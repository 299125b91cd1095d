"""Finds and ends what the lab's sessions started, also what left its process group or lost its parent."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

from remote.lab.session_env import MARKER
from remote.lab.state import Paths

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""


def find(paths: Paths, parent: int | None = None, marker: str = MARKER) -> list[psutil.Process]:
    """The running processes with the lab's mark in their environment, and all descendants of `parent`.

    A process that cleared its environment is found only as a descendant. The caller itself is left out.
    """
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
            if process.environ().get(marker) == str(paths.root):
                found[process.pid] = process
    if parent is not None:
        with suppress(psutil.NoSuchProcess):
            found.update({child.pid: child for child in psutil.Process(parent).children(recursive=True)})
    found.pop(os.getpid(), None)
    return [process for process in found.values() if _runs(process)]


def end(paths: Paths, parent: int | None = None, marker: str = MARKER) -> int:
    """Ends those that `find` finds: SIGTERM, a short grace, SIGKILL, until none is left that was forked meanwhile.

    Returns:
        how many there were.
    """
    seen: set[int] = set()
    for attempt in range(20):
        left = find(paths, parent, marker)
        if not left:
            break
        seen.update(process.pid for process in left)
        for process in left:
            _signal(process, signal.SIGTERM if attempt == 0 else signal.SIGKILL)
        psutil.wait_procs(left, timeout=GRACE if attempt == 0 else 0.5)
    return len(seen)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(number)  # psutil checks the start time first: never a stranger with a reused pid
        process.send_signal(signal.SIGCONT)  # a stopped process takes SIGTERM only when it runs again
