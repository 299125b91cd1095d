"""The lab's SSH server held against OpenSSH's sshd: the same tests on both, by the plain ssh client and paramiko.

pytest tests/contract/test_lab_server.py
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import asyncssh
import psutil
import pytest
from ssh_clients import MIB, open_channel, paramiko_client, ssh
from ssh_servers import ROOT, SshServer


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
