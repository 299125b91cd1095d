"""SFTP, for boxes whose login has no shell."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator

import paramiko

from helpers.box.execution import is_lost
from helpers.box.session import Session
from helpers.box.transient import lost
from helpers.errors import RemoteFailed


@contextlib.contextmanager
def open_sftp(session: Session) -> Iterator[paramiko.SFTPClient]:
    """An SFTP client on a channel of its own.

    Raises:
        RemoteFailed: WB-SFTP-REFUSED. Transient: the link broke.
    """
    with session.channel() as channel:
        try:
            channel.settimeout(session.timeout)
            channel.invoke_subsystem("sftp")
            client = paramiko.SFTPClient(channel)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if is_lost(channel):
                raise lost(session.target.name, error) from error
            raise RemoteFailed(
                "WB-SFTP-REFUSED",
                f"{session.target.name} offers neither a shell nor SFTP: {error or 'it closed the channel'}",
                expected="a login with a shell, or with the subsystem sftp",
                next="ask whoever runs the box for shell access",
            ) from error
        channel.settimeout(None)
        try:
            yield client
        finally:
            client.close()


def make_folders(client: paramiko.SFTPClient, folder: str) -> None:
    """``mkdir -p``, which SFTP does not have."""
    missing = []
    while folder not in ("", "/"):
        try:
            client.stat(folder)
            break
        except FileNotFoundError:
            missing.append(folder)
            folder = posixpath.dirname(folder)
    for path in reversed(missing):
        client.mkdir(path)
