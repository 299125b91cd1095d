"""The lab's SSH server held against OpenSSH's sshd: the same tests on both, by the plain ssh client and paramiko.

pytest tests/contract/test_lab_server.py
"""

from __future__ import annotations

import subprocess

from ssh_servers import SshServer


def ssh(server: SshServer, command: str, *options: str, **kwargs: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["ssh", "-F", server.ssh_config, *options, server.alias, command],
        capture_output=True,
        timeout=60,
        **kwargs,  # type: ignore[call-overload]
    )


def test_exit_status_and_streams_apart(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
