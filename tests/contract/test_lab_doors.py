"""Who may come into the lab's server, where it forwards to, and its files; the same tests on OpenSSH's sshd.

pytest tests/contract/test_lab_doors.py
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import psutil
import pytest
from ssh_clients import MIB, paramiko_client, ssh
from ssh_servers import SshServer


def test_only_the_right_key_and_user_come_in(ssh_server: SshServer, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    only = ["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={ssh_server.known_hosts}"]
    where = ["-F", "/dev/null", "-p", str(ssh_server.port)]

    def login(key: Path, user: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["ssh", *where, *only, "-i", key, f"{user}@127.0.0.1", "true"], capture_output=True, timeout=30
        )

    assert login(ssh_server.client_key, ssh_server.user).returncode == 0
    for key, user in ((tmp_path / "other", ssh_server.user), (ssh_server.client_key, "nobody-here")):
        refused = login(key, user)
        assert refused.returncode == 255
        assert b"Permission denied (publickey)" in refused.stderr


def test_passwords_are_refused(ssh_server: SshServer) -> None:
    with socket.create_connection((ssh_server.host, ssh_server.port), timeout=10) as sock:
        transport = paramiko.Transport(sock)
        try:
            transport.start_client(timeout=10)
            with pytest.raises(paramiko.BadAuthenticationType) as refused:
                transport.auth_password(ssh_server.user, "secret")
            assert refused.value.allowed_types == ["publickey"]
        finally:
            transport.close()


def test_a_changed_host_key_stops_the_client(ssh_server: SshServer, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    algorithm, blob = (tmp_path / "other.pub").read_text().split()[:2]
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {algorithm} {blob}\n")
    result = ssh(ssh_server, "true", "-o", f"UserKnownHostsFile={known_hosts}")
    assert result.returncode == 255
    assert b"Host key verification failed" in result.stderr


def test_only_the_loopback_is_bound_and_keys_are_private(lab_server: SshServer) -> None:
    listening = [c.laddr for c in psutil.Process(lab_server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening == [("127.0.0.1", lab_server.port)]
    keys = lab_server.client_key.parent
    assert {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir() if path.suffix != ".pub"} == {
        "client_ed25519": 0o600,
        "host_ed25519": 0o600,
    }


# --- forwarding --------------------------------------------------------------------------------------------------


@contextmanager
def echo_server() -> Iterator[int]:
    """Sends back what it gets, until end of file."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            while data := connection.recv(MIB):
                connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


def test_forwarding_to_the_loopback(ssh_server: SshServer) -> None:
    data = os.urandom(3 * MIB)
    with echo_server() as port:
        result = subprocess.run(
            ["ssh", "-F", ssh_server.ssh_config, "-W", f"localhost:{port}", ssh_server.alias],
            input=data,
            capture_output=True,
            timeout=60,
        )
    assert result.stdout == data


def test_forwarding_to_a_closed_port_is_an_answer(ssh_server: SshServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with paramiko_client(ssh_server) as client:
        transport = client.get_transport()
        assert transport is not None
        with pytest.raises(paramiko.ChannelException, match="Connect failed"):
            transport.open_channel("direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0))


def test_the_lab_forwards_nowhere_else(lab_server: SshServer) -> None:
    with paramiko_client(lab_server) as client:
        transport = client.get_transport()
        assert transport is not None
        with pytest.raises(paramiko.ChannelException, match="Administratively prohibited"):
            transport.open_channel("direct-tcpip", ("192.0.2.1", 80), ("127.0.0.1", 0))


# --- files -------------------------------------------------------------------------------------------------------


def test_sftp_on_the_real_file_system(ssh_server: SshServer, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB + 17)
    (tmp_path / "local").write_bytes(data)
    with paramiko_client(ssh_server) as client, client.open_sftp() as sftp:
        assert sftp.normalize(".") == str(ssh_server.home)
        sftp.put(str(tmp_path / "local"), "put.bin")
        assert (ssh_server.home / "put.bin").read_bytes() == data
        sftp.posix_rename("put.bin", str(tmp_path / "moved"))
        assert (tmp_path / "moved").read_bytes() == data
        sftp.get(str(tmp_path / "moved"), str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == data
        sftp.symlink(str(tmp_path / "moved"), str(tmp_path / "link"))
        assert (tmp_path / "link").resolve() == (tmp_path / "moved").resolve()
        assert sftp.stat(str(tmp_path / "link")).st_size == len(data)
        assert sorted(sftp.listdir(str(tmp_path))) == ["back", "link", "local", "moved"]
        with pytest.raises(FileNotFoundError):
            sftp.stat("missing")


def test_the_plain_tools(ssh_server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(os.urandom(100_000))
    config = ["-F", ssh_server.ssh_config]
    batch = f"pwd\nput {tmp_path / 'local'} by-sftp\n".encode()
    sftp = subprocess.run(["sftp", *config, "-b", "-", ssh_server.alias], input=batch, capture_output=True, timeout=30)
    assert sftp.returncode == 0
    assert str(ssh_server.home).encode() in sftp.stdout
    for option in ([], ["-O"]):  # over SFTP, and over a remote scp as before OpenSSH 9
        target = tmp_path / f"back{len(option)}"
        subprocess.run(["scp", "-q", *option, *config, f"{ssh_server.alias}:by-sftp", target], check=True, timeout=30)
        assert target.read_bytes() == (tmp_path / "local").read_bytes()
