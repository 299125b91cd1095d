"""The byte stream under SSH: TCP with the options that matter, or a ProxyCommand's stdin and stdout."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
from types import TracebackType

from helpers.box.sshconfig import aliases
from helpers.box.transient import Transient, unreachable
from helpers.nearest import nearest
from helpers.owner import home

DEAD_AFTER = 30.0
"""Seconds without any sign of life after which the box counts as gone."""


def tcp(where: str, host: str, port: int, timeout: float) -> socket.socket:
    """A connected socket: no Nagle delay (44 ms -> 2 ms for a round trip), and given up when data stays unanswered.

    Raises:
        Transient: WB-SSH-CONNECT.
    """
    try:
        sock = socket.create_connection((host, port), timeout=timeout)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no resolver takes, such as one too long
        known = boxes() if isinstance(error, socket.gaierror | UnicodeError) else []
        meant = nearest(where.rpartition("@")[2].partition(":")[0], known)
        why = getattr(error, "strerror", None) or error
        raise unreachable(
            where, f"{host}:{port}", why, timeout, meant=meant, late=isinstance(error, TimeoutError)
        ) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(DEAD_AFTER * 1000))
    return sock


def boxes() -> list[str]:
    """Names that are boxes without an address: the lab, and the aliases of ~/.ssh/config."""
    return ["lab", *aliases(home() / ".ssh" / "config")]


class ProxyProcess:
    """A running ProxyCommand. ``sock`` is our end of it: a real socket, with timeouts and polling as with TCP."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.sock, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        with theirs:
            # The command comes from the user's own ~/.ssh/config and is shell text there too (ssh_config(5)).
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._errors.fileno(),
            )

    def last_words(self) -> str:
        """What the command said on stderr, at most 500 characters."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-500:]

    def failed(self, where: str, timeout: float, *, late: bool) -> Transient:
        words = self.last_words() or "the command gave no connection"
        return unreachable(where, f"ProxyCommand {self.command}", words, timeout, late=late)

    def close(self) -> None:
        self.sock.close()
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> ProxyProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
