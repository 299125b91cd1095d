"""Whether a lab's record stands for a lab that really answers."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from remote.lab.state import Record

TIMEOUT = 10.0
"""Seconds for a greeting on the loopback."""


def answers(record: Record) -> bool:
    """Whether the recorded process runs, greets on its port as an SSH server, and its client's files are there.

    That process holds the port for as long as it lives, so nobody else can be greeting there. A whole login would tell
    little more, and costs half a second of imports in commands that people wait for.
    """
    if not record.daemon.alive() or not all(Path(p).exists() for p in (record.client_key, record.known_hosts)):
        return False
    with suppress(OSError), socket.create_connection((record.host, record.port), timeout=TIMEOUT) as connection:
        return connection.recv(8).startswith(b"SSH-2.0-")
    return False
