"""A real OpenSSH server of this user on the loopback: the one that ours and its peers are measured against."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.box.targets import Target


@dataclass(frozen=True)
class Server:
    """target: for our client. ssh_config: for OpenSSH's, with the host ``box``; home: of the sessions."""

    target: Target
    ssh_config: Path
    home: Path


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """The server, with all its files in ``folder``, until the block ends."""
    binary = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if binary is None:
        raise SystemExit("benchmarks: no sshd on this machine (apt-get install -y openssh-server)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    home = folder / "home"
    home.mkdir()
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/client.pub\n"
        f"PidFile none\nSubsystem sftp internal-sftp\nSetEnv HOME={home}\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\nLogLevel ERROR\n"
    )
    user, known = getpass.getuser(), folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {' '.join((folder / 'host.pub').read_text().split()[:2])}\n")
    config = folder / "ssh_config"
    config.write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentityFile {folder}/client\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        "Host mux\n  HostName 127.0.0.1\n"
        f"  Port {port}\n  User {user}\n  IdentityFile {folder}/client\n  UserKnownHostsFile {known}\n"
        f"  BatchMode yes\n  ControlPath {folder}/mux\n  ControlMaster auto\n  ControlPersist yes\n"
    )
    target = Target(
        name="bench",
        host="127.0.0.1",
        port=port,
        user=user,
        identity_files=(folder / "client",),
        identities_only=True,
        agent=False,
        known_hosts=(known,),
    )
    with subprocess.Popen([binary, "-D", "-e", "-f", folder / "sshd_config"]) as process:
        try:
            _wait(port)
            yield Server(target, config, home)
        finally:
            process.terminate()


def _wait(port: int) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
            if sock.recv(4) == b"SSH-":
                return
        time.sleep(0.02)
    raise SystemExit(f"benchmarks: sshd did not come up on port {port}")
