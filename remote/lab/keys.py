"""Keys of the lab, made at its first start, and the client's files that pin its host key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from remote.lab.state import ALIAS, HOST, Paths, write_atomically


@dataclass(frozen=True)
class Keys:
    """Files of the two ed25519 pairs; the public half lies beside each under ``.pub``."""

    host: Path
    client: Path


def key_files(paths: Paths) -> Keys:
    return Keys(paths.keys / "host_ed25519", paths.keys / "client_ed25519")


def ensure_keys(paths: Paths) -> Keys:
    """The lab's keys, made where they are missing. Never replaced: clients have pinned the host's."""
    paths.keys.mkdir(mode=0o700, exist_ok=True)
    keys = key_files(paths)
    for path in (keys.host, keys.client):
        if not path.exists():
            import asyncssh  # a third of a second, which most commands need not spend

            key = asyncssh.generate_private_key("ssh-ed25519", comment=f"workbook-lab-{path.name.partition('_')[0]}")
            write_atomically(path.with_name(path.name + ".pub"), key.export_public_key().decode(), 0o644)
            write_atomically(path, key.export_private_key().decode(), 0o600)
        os.chmod(path, 0o600)  # ssh refuses a key that others can read
    return keys


def write_client_files(paths: Paths, keys: Keys, port: int, user: str) -> None:
    """Writes known_hosts and an ssh_config, so that ``ssh -F ssh_config lab`` and strict clients work."""
    algorithm, blob = keys.host.with_name(keys.host.name + ".pub").read_text().split()[:2]
    write_atomically(paths.known_hosts, f"[{HOST}]:{port} {algorithm} {blob}\n")
    options = {
        "HostName": HOST,
        "Port": str(port),
        "User": user,
        "IdentityFile": _quoted(keys.client),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": _quoted(paths.known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "PasswordAuthentication": "no",
    }
    lines = [f"Host {ALIAS}", *(f"  {name} {value}" for name, value in options.items())]
    write_atomically(paths.ssh_config, "\n".join(lines) + "\n")


def _quoted(path: Path) -> str:
    """A path as ssh_config takes it: blanks need the quotes, and % starts a token."""
    return '"' + str(path).replace("%", "%%") + '"'
