"""Closed channels, terminals, environment and signals of the lab's server; the same tests on OpenSSH's sshd.

pytest tests/contract/test_lab_channels.py
"""

from __future__ import annotations

import asyncio
import time

import asyncssh
import psutil
import pytest
from ssh_clients import ends, open_channel, paramiko_client, read_line, ssh
from ssh_servers import SshServer


def test_many_sessions_in_one_connection(ssh_server: SshServer) -> None:
    with paramiko_client(ssh_server) as client:
        channels = [open_channel(client) for _ in range(20)]
        for number, channel in enumerate(channels):
            channel.exec_command(f"echo {number}; exit {number}")
        for number, channel in enumerate(channels):
            assert read_line(channel) == str(number)
            assert channel.recv_exit_status() == number


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
