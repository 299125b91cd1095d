"""The first question to a box: where is home, and what reads our commands?"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from helpers.box import sftp
from helpers.box.execution import Execution
from helpers.box.session import Session
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
    execution = Execution(session, ["/bin/sh", "-c", script], deadline=session.timeout, login_shell="unknown")
    try:
        out = b"".join(block for name, block in execution.events() if name == "out")
    except RemoteFailed as error:
        if error.code != "WB-RUN-NO-SHELL":
            raise
        with sftp.open_sftp(session) as client:
            return Greeting(client.normalize("."), "", False)
    home, shell = [*out.decode("utf-8", "surrogateescape").splitlines(), "", ""][:2]
    return Greeting(home.rstrip("/") or "/", posixpath.basename(shell) or "sh", True)
