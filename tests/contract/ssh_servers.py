"""The two servers of the contract tests, described alike: the lab's own, and a real OpenSSH sshd."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SshServer:
    """A running SSH server on the loopback, and what a client needs to reach it.

    Fields:
        kind: "lab" or "openssh".
        alias: the Host of ``ssh_config``; ``ssh -F ssh_config alias`` works.
        client_key: private ed25519 key, no passphrase.
        known_hosts: pins the host key under ``[host]:port``.
        home: where sessions start, and their HOME; empty at first (the lab's may hold what `up` put there).
        pid: of the process that listens.
    """

    kind: str
    alias: str
    host: str
    port: int
    user: str
    client_key: Path
    known_hosts: Path
    ssh_config: Path
    home: Path
    pid: int


ROOT = Path(__file__).resolve().parents[2]
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def sshd_binary() -> Path:
    """The real sshd. Its absence is an error, not a skip: the lab must be held to what it imitates."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")
    if found is None:
        raise RuntimeError("no sshd on this machine: apt-get install -y openssh-server (the service need not run)")
    return Path(found).resolve()


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "contract-tests", "-f", path], check=True)


def _wait_for_banner(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)  # nothing announces a listening sshd but the port itself
    raise RuntimeError(f"sshd did not come up on port {port}:\n{log.read_text(errors='replace')[-2000:]}")


def forced_command(home: Path, start: str = "") -> str:
    """Starts every session in `home`, since sshd itself only knows the home of the password database.

    exec keeps the process that sshd waits for, so exit status and signals are those of the command. `start` comes
    before the shell: a program that starts it with other rights.
    """
    return (
        f"cd '{home}' && command=$SSH_ORIGINAL_COMMAND && unset SSH_ORIGINAL_COMMAND OLDPWD; "
        f'if [ -n "$command" ]; then exec {start}"$SHELL" -c "$command"; else exec {start}"$SHELL" -l; fi'
    )


@contextmanager
def openssh_server(folder: Path, *first: str) -> Iterator[SshServer]:
    """Runs sshd as this user on a free port, with keys, home and log in `folder`.

    `first` are lines of sshd_config that come before the others, and so win over them.
    """
    binary = sshd_binary()
    home = folder / "home"
    home.mkdir(parents=True)
    host_key, client_key = folder / "host_ed25519", folder / "client_ed25519"
    for key in (host_key, client_key):
        _keygen(key)
    authorized = folder / "authorized_keys"
    authorized.write_bytes(client_key.with_suffix(".pub").read_bytes())
    authorized.chmod(0o600)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # privilege separation wants it, the service makes it
    port, log = free_port(), folder / "sshd.log"
    sftp = next(p for p in map(Path, SFTP_SERVERS) if p.exists())
    (folder / "sshd_config").write_text(
        "\n".join(
            [
                *first,
                f"ListenAddress 127.0.0.1:{port}",
                f"HostKey {host_key}",
                f"AuthorizedKeysFile {authorized}",
                f"PidFile {folder / 'sshd.pid'}",
                f"Subsystem sftp {sftp}",
                f'SetEnv "HOME={home}"',
                f"ForceCommand {forced_command(home)}",
                "AcceptEnv LANG LC_*",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "PermitRootLogin prohibit-password",
                "StrictModes no",
                "UsePAM no",
                "MaxStartups 100",
                "MaxSessions 100",
                "PrintMotd no",
                "LogLevel ERROR",
            ]
        )
        + "\n"
    )
    user = getpass.getuser()
    known_hosts = folder / "known_hosts"
    algorithm, blob = host_key.with_suffix(".pub").read_text().split()[:2]
    known_hosts.write_text(f"[127.0.0.1]:{port} {algorithm} {blob}\n")
    ssh_config = folder / "ssh_config"
    ssh_config.write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentityFile {client_key}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n  BatchMode yes\n"
    )
    with log.open("wb") as out:
        process = subprocess.Popen(
            [binary, "-D", "-e", "-f", folder / "sshd_config"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        _wait_for_banner(port, process, log)
        yield SshServer(
            "openssh", "box", "127.0.0.1", port, user, client_key, known_hosts, ssh_config, home, process.pid
        )
    finally:
        process.terminate()
        process.wait(10)


def remote_lab(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m remote.lab ARGUMENTS`` on the lab in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "remote.lab", *arguments],
        env={**os.environ, "WORKBOOK_LAB_HOME": str(folder)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=check,
        timeout=120,
    )


@contextmanager
def lab_server(folder: Path) -> Iterator[SshServer]:
    """Runs a lab without SGLang in `folder`; a test that wants `helpers` to find it sets WORKBOOK_LAB_HOME to that."""
    record = json.loads(remote_lab(folder, "up", "--engine", "none", "--json").stdout)
    try:
        yield SshServer(
            kind="lab",
            alias=record["alias"],
            host=record["host"],
            port=record["port"],
            user=record["user"],
            client_key=Path(record["client_key"]),
            known_hosts=Path(record["known_hosts"]),
            ssh_config=Path(record["ssh_config"]),
            home=Path(record["home"]),
            pid=record["pid"],
        )
    finally:
        remote_lab(folder, "down")
