"""The first question to a box: where is home, and what reads our commands?"""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass

from helpers.box import sftp
from helpers.box.execution import Execution
from helpers.box.patience import GREETING, VARIABLE
from helpers.box.session import Session
from helpers.box.transient import by_hand
from helpers.errors import RemoteFailed


@dataclass(frozen=True)
class Greeting:
    """home: absolute path. login_shell: such as ``bash``; empty without one. has_shell: whether commands run."""

    home: str
    login_shell: str
    has_shell: bool


def greet(session: Session) -> Greeting:
    """Ask the box; idempotent, so a link that breaks meanwhile is made again.

    Raises:
        BoxUnreachable: no connection. RemoteFailed: neither a shell nor SFTP.
    """
    return session.retry(lambda: _greet(session))


def _greet(session: Session) -> Greeting:
    # An unknown login shell gets the form of the command that any shell reads alike.
    script = 'printf "%s\\n" "$HOME" "$SHELL"'
    seconds, began = max(GREETING, session.timeout), time.monotonic()
    execution = Execution(session, ["/bin/sh", "-c", script], deadline=seconds, login_shell="unknown")
    try:
        out = b"".join(block for name, block in execution.events() if name == "out")
    except RemoteFailed as error:
        if error.code == "WB-RUN-DEADLINE":
            raise _silent(session, seconds) from error
        if error.code != "WB-RUN-NO-SHELL":
            raise
        with sftp.open_sftp(session) as client:
            return Greeting(client.normalize("."), "", False)
    session.shell_seconds = time.monotonic() - began
    home, shell = [*out.decode("utf-8", "surrogateescape").splitlines(), "", ""][:2]
    return Greeting(home.rstrip("/") or "/", posixpath.basename(shell) or "sh", True)


def _silent(session: Session, seconds: float) -> RemoteFailed:
    name = session.target.name
    return RemoteFailed(
        "WB-RUN-DEADLINE",
        f"the login shell on {name} ran no command within {seconds:g} s of the login",
        expected="a shell that gets through its start-up files (.bashrc, a home on the network) in that time",
        next=f"see what it waits for: ssh {by_hand(name)} true; to wait longer: {VARIABLE}={2 * seconds:g}",
    )
