"""TCP ports of the box: whether a server could listen there, who holds one, and whether it answers."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from remote import processes

#: Where a port is looked for when a profile names none; below the kernel's range for outgoing connections.
FIRST, LAST = 30000, 30999
LISTEN = "0A"  # the state in /proc/net/tcp


def bindable(host: str, port: int) -> bool:
    """Whether a listener could have this port now. Old connections in TIME_WAIT do not count, as for the server."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def answers(host: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((reachable(host), port), timeout=2):
            return True
    except OSError:
        return False


def reachable(host: str) -> str:
    """The address to ask for what listens on ``host``: a wildcard is asked on the loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def free(host: str, *, claimed: set[int]) -> int | None:
    """A port of the range that nobody holds and no loading server of this user has been promised.

    The search begins anywhere: two users of a box, who do not see each other's promises, seldom meet.
    """
    size = LAST - FIRST + 1
    begin = random.randrange(size)
    for step in range(size):
        port = FIRST + (begin + step) % size
        if port not in claimed and bindable(host, port):
            return port
    return None


def holder(port: int) -> processes.Process | None:
    """The process that listens on the port, where this user may see it."""
    inodes = _listening(port)
    return _holding(inodes, processes.running()) if inodes else None


def foreign(port: int, run: str) -> bool:
    """Whether somebody listens on the port who is no process of the run: the run's own server can then never get it."""
    inodes = _listening(port)
    return bool(inodes) and _holding(inodes, processes.marked(run, processes.running())) is None


def _holding(inodes: set[str], among: list[processes.Process]) -> processes.Process | None:
    for process in among:
        try:
            handles = list((processes.PROC / str(process.pid) / "fd").iterdir())
        except OSError:
            continue
        if any(_link(handle) in inodes for handle in handles):
            return process
    return None


def _listening(port: int) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = (processes.PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return inodes


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
