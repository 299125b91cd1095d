"""The lab's SSH server: who may come in, and what a connection may ask for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

import asyncssh

from remote.lab.process import Children
from remote.lab.session import BoxSession

LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Offered alone, since the client's preference decides and most prefer one that costs this server half as much again.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")


@dataclass(frozen=True)
class Box:
    """What the server serves: who may log in, and the environment and HOME of sessions."""

    user: str
    client_key: asyncssh.SSHKey
    env: Mapping[str, str]
    home: str


class BoxServer(asyncssh.SSHServer):
    """One client's connection: key login of one user, sessions, and forwarding to the loopback."""

    def __init__(self, box: Box, children: Children) -> None:
        self._box = box
        self._children = children

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._box.user and key.public_data == self._box.client_key.public_data

    def session_requested(self) -> BoxSession:
        return BoxSession(self._children, self._box.env, self._box.home)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        if dest_host not in LOOPBACK:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, f"the lab forwards to the loopback only, not to {dest_host}"
            )
        return True


async def listen(sock: socket.socket, host_key: str, box: Box) -> asyncssh.SSHAcceptor:
    """Serves `box` on a socket that listens already."""
    children = Children()
    return await asyncssh.listen(
        sock=sock,
        server_factory=lambda: BoxServer(box, children),
        server_host_keys=[host_key],
        encryption_algs=list(CIPHERS),
        encoding=None,
        line_editor=False,
        allow_scp=False,
        agent_forwarding=False,
        x11_forwarding=False,
        gss_host=None,
    )
