"""The plain ssh client and paramiko, on a server of the tests; what both suites of the lab's server share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko
import psutil
from ssh_servers import SshServer

MIB = 1 << 20


def ssh(server: SshServer, command: str, *options: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["ssh", "-F", server.ssh_config, *options, server.alias, *([command] if command else [])],
        input=stdin,
        capture_output=True,
        timeout=60,
    )


@contextmanager
def paramiko_client(server: SshServer) -> Iterator[paramiko.SSHClient]:
    client = paramiko.SSHClient()
    client.load_host_keys(str(server.known_hosts))
    client.connect(
        server.host,
        server.port,
        server.user,
        key_filename=str(server.client_key),
        allow_agent=False,
        look_for_keys=False,
    )
    try:
        yield client
    finally:
        client.close()


def read_line(channel: paramiko.Channel) -> str:
    """One line from the start of a channel's output; what follows it stays in the channel."""
    line = b""
    while not line.endswith(b"\n"):
        line += channel.recv(1)
    return line.decode().strip()


def ends(pid: int, seconds: float) -> bool:
    """Whether a process ends, or is a zombie, within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def open_channel(client: paramiko.SSHClient) -> paramiko.Channel:
    transport = client.get_transport()
    assert transport is not None
    return transport.open_session()
