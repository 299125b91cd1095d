"""What /proc says about processes: the only source for who is alive, who is whose, and which pid is still the same one.

A pid alone names nobody: the kernel hands it out again. A process is named by pid, start time and boot, and what a run
has started carries ``WORKBOOK_RUN=<run id>`` in its environment. Standard library only; Linux.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

MARKER = "WORKBOOK_RUN"
PROC = Path("/proc")
MACHINE = Path("/etc/machine-id")
SECRET = re.compile(rb"^--?[\w-]*(key|token|secret|password)(=|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Process:
    """One process. ``start`` is in clock ticks since boot; ``command`` is what ``ps`` shows, without keys."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    state: str
    command: str

    @property
    def alive(self) -> bool:
        """A zombie is dead: it only waits for a parent that may never ask (a container without an init)."""
        return self.state not in "ZX"

    def as_dict(self) -> dict[str, object]:
        """What a report shows of it."""
        return {"pid": self.pid, "pgid": self.group, "start_time": self.start, "command": self.command}


def boot_id() -> str:
    """Which boot the start times count from."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def node() -> dict[str, str | None]:
    """Which machine this is: ``{"name", "machine_id"}``. A home may be mounted on several."""
    try:
        machine = MACHINE.read_text().strip() or None
    except (OSError, ValueError):
        machine = None
    return {"name": socket.gethostname(), "machine_id": machine}


def find(pid: int) -> Process | None:
    """The process with this pid, or None."""
    folder = PROC / str(pid)
    try:
        stat = (folder / "stat").read_text(errors="replace")
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    # The name may hold blanks and brackets: what follows its last ")" is plain.
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    command = b" ".join(_masked([word for word in words if word])).decode("utf-8", "replace")
    return Process(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        command=command[:300] or f"[{name}]",
    )


def running() -> list[Process]:
    """Every living process that this user may see."""
    found = (find(int(name)) for name in os.listdir(PROC) if name.isdigit())
    return [process for process in found if process is not None and process.alive]


def same(pid: int, start: int, boot: str) -> Process | None:
    """The living process with that pid if it is still the one that started then, else None."""
    process = find(pid)
    return process if process and process.alive and process.start == start and boot == boot_id() else None


def marked(run: str, among: list[Process]) -> list[Process]:
    """Those of ``among`` that were started for this run, by their environment."""
    wanted = f"{MARKER}={run}".encode()
    return [process for process in among if wanted in _environment(process.pid)]


def descendants(pid: int, among: list[Process]) -> list[Process]:
    """Children, their children and so on, as far as the parents still live."""
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [p for p in among if p.parent in parents]
        found += children
        parents = {p.pid for p in children}
    return found


def _masked(words: list[bytes]) -> list[bytes]:
    """A command line as it may be shown: values of ``--api-key`` and the like hidden."""
    shown: list[bytes] = []
    for word in words:
        if shown and SECRET.match(shown[-1]) and b"=" not in shown[-1]:
            word = b"***"
        found = SECRET.match(word)
        shown.append(found.group() + b"***" if found and b"=" in word else word)
    return shown


def run_of(pid: int) -> str | None:
    """The run that a process was started for, None for no run or a process that may not be read."""
    prefix = f"{MARKER}=".encode()
    found = [word for word in _environment(pid) if word.startswith(prefix)]
    return found[0][len(prefix) :].decode("utf-8", "replace") if found else None


def _environment(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return []
