"""What a test may leave behind: nothing. Found through the environment that a process was started with, not by name."""

from __future__ import annotations

import os
import time
from pathlib import Path


def processes_with(text: str) -> list[str]:
    """Every other process whose environment holds `text` (a temporary folder, say), as "pid command"."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile, or is another user's
            continue
        if text.encode() in environment:
            found.append(f"{entry.name} {command[:150]}")
    return found


def gone(text: str, *, within: float = 15) -> list[str]:
    """Waits until no process with `text` in its environment is left; returns those that are, after `within` seconds."""
    end = time.monotonic() + within
    while (left := processes_with(text)) and time.monotonic() < end:
        time.sleep(0.1)
    return left
