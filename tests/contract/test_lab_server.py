"""The lab's SSH server held against OpenSSH's sshd: the same tests on both, by the plain ssh client and paramiko.

pytest tests/contract/test_lab_server.py
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import paramiko
import psutil
import pytest
from ssh_servers import ROOT, SshServer

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


# --- processes ---------------------------------------------------------------------------------------------------


def test_exit_status_and_streams_apart(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


def test_exit_signal_is_named(ssh_server: SshServer) -> None:
    async def run() -> tuple[str, bool, str, str] | None:
        async with asyncssh.connect(
            ssh_server.host,
            ssh_server.port,
            username=ssh_server.user,
            client_keys=[str(ssh_server.client_key)],
            known_hosts=str(ssh_server.known_hosts),
            config=None,
        ) as connection:
            return (await connection.run("kill -SEGV $$")).exit_signal

    signal = asyncio.run(run())
    assert signal is not None
    assert signal[0] == "SEGV"
    assert ssh(ssh_server, "kill -9 $$").returncode == 255


def test_starts_in_home_with_the_users_shell(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, 'pwd; echo "$HOME"; echo "$USER"; echo "$0"; [ -n "$SSH_CONNECTION" ] && echo told')
    home = str(ssh_server.home)
    shell = ssh(ssh_server, 'echo "$SHELL"').stdout.decode().strip()
    assert result.stdout.decode().split() == [home, home, ssh_server.user, shell, "told"]


def test_binary_stdin_arrives_whole(ssh_server: SshServer) -> None:
    data = os.urandom(5 * MIB)
    assert ssh(ssh_server, "cat", stdin=data).stdout == data


def test_process_that_does_not_read_its_input(ssh_server: SshServer) -> None:
    assert ssh(ssh_server, "exec 0<&-; echo done", stdin=bytes(8 * MIB)).stdout == b"done\n"


def test_large_output_on_both_streams_at_once(ssh_server: SshServer) -> None:
    size = 24 * MIB
    program = (
        f"import os,sys,threading;t=threading.Thread(target=lambda:sys.stderr.buffer.write(b'e'*{size}));"
        f"t.start();sys.stdout.buffer.write(bytes(range(256))*({size}//256));t.join()"
    )
    result = ssh(ssh_server, f"{shlex.quote(str(ROOT / '.venv/bin/python'))} -c {shlex.quote(program)}")
    assert result.returncode == 0
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(bytes(range(256)) * (size // 256)).digest()
    assert len(result.stderr) == size
    assert result.stderr.count(b"e") == size


@pytest.mark.full
def test_a_gibibyte_on_each_stream_in_bounded_memory(lab_server: SshServer) -> None:
    daemon = psutil.Process(lab_server.pid)
    before = daemon.memory_info().rss
    command = "head -c 1073741824 /dev/zero >&2 & head -c 1073741824 /dev/zero; wait"
    argv = ["ssh", "-F", lab_server.ssh_config, lab_server.alias, command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        counts: dict[int, int] = {}

        def count(stream: int) -> None:
            total = 0
            while data := os.read(stream, MIB):
                total += len(data)
            counts[stream] = total

        assert client.stdout is not None
        assert client.stderr is not None
        threads = [threading.Thread(target=count, args=[s.fileno()]) for s in (client.stdout, client.stderr)]
        for thread in threads:
            thread.start()
        peak = before
        while any(thread.is_alive() for thread in threads):
            peak = max(peak, daemon.memory_info().rss)
            time.sleep(0.05)
    assert sorted(counts.values()) == [1 << 30, 1 << 30]
    assert peak - before < 64 * MIB


def test_reader_that_stops_reading_stops_the_writer(lab_server: SshServer) -> None:
    daemon = psutil.Process(lab_server.pid)
    with paramiko_client(lab_server) as client:
        channel = open_channel(client)
        before = daemon.memory_info().rss
        channel.exec_command("head -c 300000000 /dev/zero")
        channel.recv(1)
        time.sleep(0.5)
        assert daemon.memory_info().rss - before < 32 * MIB


def test_status_and_late_output_of_a_background_process(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, "(sleep 0.3; echo late) & echo early; exit 3")
    assert (result.returncode, result.stdout) == (3, b"early\nlate\n")


def test_status_comes_before_the_output_ends(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.exec_command("sleep 5 & exit 4")
        assert channel.status_event.wait(3)
        assert channel.recv_exit_status() == 4
        assert not channel.closed


def test_login_shell_without_a_command(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, "", "-T", stdin=b"echo $((6*7)); shopt -q login_shell && echo login; exit 4\n")
    assert result.returncode == 4
    assert result.stdout.decode().split() == ["42", "login"]


def test_login_shell_finds_the_labs_python(lab_server: SshServer) -> None:
    result = ssh(lab_server, "", "-T", stdin=b"command -v python3\n")
    assert result.stdout.decode().strip() == str(Path(sys.executable).parent / "python3")


def test_many_sessions_in_one_connection(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channels = [open_channel(client) for _ in range(20)]
        for number, channel in enumerate(channels):
            channel.exec_command(f"echo {number}; exit {number}")
        for number, channel in enumerate(channels):
            assert read_line(channel) == str(number)
            assert channel.recv_exit_status() == number


# --- closed channels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["channel", "connection"])
def test_closed_by_the_client_a_process_goes_on(ssh_server: SshServer, what: str) -> None:
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.exec_command("echo $$; exec sleep 60")
        process = psutil.Process(int(read_line(channel)))
        channel.close() if what == "channel" else client.close()
        time.sleep(0.4)
        assert process.is_running()
        assert process.status() != psutil.STATUS_ZOMBIE
        process.kill()
        assert ends(process.pid, 5)


def test_closed_channel_ends_a_process_that_writes(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.exec_command("echo $$; while :; do echo x; sleep 0.05; done")
        pid = int(read_line(channel))
        channel.close()
        assert ends(pid, 5)


def test_closed_channel_is_end_of_file_on_stdin(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.exec_command("echo $$; exec cat >/dev/null")
        pid = int(read_line(channel))
        assert not ends(pid, 0.2)
        channel.close()
        assert ends(pid, 5)


def test_closed_terminal_hangs_up(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.get_pty("xterm", 100, 30)
        channel.exec_command("echo $$; exec sleep 60")
        pid = int(read_line(channel))
        channel.close()
        assert ends(pid, 5)


def test_channels_closed_at_once_leave_no_descriptor(lab_server: SshServer) -> None:
    daemon = psutil.Process(lab_server.pid)
    with paramiko_client(lab_server) as client:
        before = daemon.num_fds()
        for _ in range(30):
            channel = open_channel(client)
            channel.exec_command("true")
            channel.close()
        end = time.monotonic() + 20  # the thirty are still starting when the last is closed; load makes it long
        while daemon.num_fds() > before and time.monotonic() < end:
            time.sleep(0.02)
        assert daemon.num_fds() <= before
        assert [child for child in daemon.children() if child.status() == psutil.STATUS_ZOMBIE] == []


# --- terminal, environment, signals ------------------------------------------------------------------------------


def test_terminal_on_request_only(ssh_server: SshServer) -> None:
    assert ssh(ssh_server, "test -t 0 || test -t 1; echo $?").stdout == b"1\n"
    with paramiko_client(ssh_server) as client:
        channel = open_channel(client)
        channel.get_pty("vt100", 101, 31)
        channel.exec_command('stty size; echo "$TERM"; test -t 0 && test -t 2; echo "$?"; read -r line; stty size')
        assert [read_line(channel) for _ in range(3)] == ["31 101", "vt100", "0"]
        channel.resize_pty(90, 20)
        channel.sendall(b"go\n")
        assert [read_line(channel) for _ in range(2)] == ["go", "20 90"]
        assert channel.recv_exit_status() == 0


def test_environment_requests_as_sshd_takes_them(ssh_server: SshServer) -> None:
    result = ssh(ssh_server, 'echo "$LC_TIME:$SECRET:$HOME"', "-o", "SetEnv=LC_TIME=C SECRET=x HOME=/nowhere")
    assert result.stdout.decode() == f"C::{ssh_server.home}\n"


def test_nothing_of_the_daemons_surroundings_reaches_a_session(lab_server: SshServer) -> None:
    names = {line.partition("=")[0] for line in ssh(lab_server, "env").stdout.decode().splitlines()}
    assert {"HOME", "USER", "PATH", "SHELL", "PYTHONPATH", "WORKBOOK_LAB"} <= names
    assert not names & {"VIRTUAL_ENV", "WORKBOOK_LAB_HOME", "WORKBOOK_LAB_DAEMON", "PYTEST_CURRENT_TEST", "TERM"}
    open_files = ssh(lab_server, "ls -l /proc/self/fd").stdout.decode()
    assert open_files.count("->") == open_files.count("pipe:") + 1  # its three pipes, and the folder that ls reads


def test_signals_reach_the_process_group(lab_server: SshServer) -> None:
    """Lab only: an sshd that runs as root refuses all signals to its own user's sessions."""

    async def run() -> tuple[str, bool, str, str] | None:
        async with asyncssh.connect(
            lab_server.host,
            lab_server.port,
            username=lab_server.user,
            client_keys=[str(lab_server.client_key)],
            known_hosts=str(lab_server.known_hosts),
            config=None,
        ) as connection:
            process = await connection.create_process("sleep 60 & echo ready; wait")
            await process.stdout.readline()
            process.send_signal("TERM")
            return (await process.wait()).exit_signal

    signal = asyncio.run(run())
    assert signal is not None
    assert signal[0] == "TERM"


def test_keepalive_is_answered(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        transport = client.get_transport()
        assert transport is not None
        transport.global_request("keepalive@openssh.com", wait=True)  # blocks until an answer of either kind
        assert transport.is_active()


# --- who may come in ---------------------------------------------------------------------------------------------


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
