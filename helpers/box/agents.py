"""The ssh-agent: that of SSH_AUTH_SOCK, or the one that IdentityAgent names (1Password, Secretive, gpg-agent)."""

from __future__ import annotations

import socket

import paramiko
from paramiko.agent import AgentSSH

LIST_SECONDS = 10.0
"""For the list of keys. A signature may wait for a finger, and so takes as long as the login may."""


class NamedAgent(AgentSSH):
    """The agent that listens at ``path``; paramiko's own knows SSH_AUTH_SOCK alone.

    Raises:
        OSError: nothing listens there. paramiko.SSHException: what listens is no agent.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        conn = socket.socket(socket.AF_UNIX)
        try:
            conn.settimeout(LIST_SECONDS)
            conn.connect(path)
            self._connect(conn)  # type: ignore[attr-defined]
            conn.settimeout(None)
        except BaseException:
            conn.close()
            raise

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]


def opened(path: str) -> tuple[paramiko.Agent | NamedAgent | None, str]:
    """The agent at ``path``, or that of SSH_AUTH_SOCK where it is empty; else None, and why there is none."""
    try:
        return (NamedAgent(path) if path else paramiko.Agent()), ""
    except (OSError, paramiko.SSHException) as error:
        named = f"IdentityAgent {path}" if path else "the agent of SSH_AUTH_SOCK"
        return None, f"{named}: {getattr(error, 'strerror', None) or error}"
