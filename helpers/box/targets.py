"""Whom to connect to: ``user@host[:port]``, an alias of ~/.ssh/config, or ``lab``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from helpers import paths
from helpers.box.sshconfig import lookup
from helpers.errors import BoxUnreachable, UsageError
from helpers.owner import home, user_name

_ADDRESS = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:@/\s\[\]]+)(?::(?P<port>\d{1,5}))?/?"
)


@dataclass(frozen=True)
class Target:
    """One SSH endpoint with everything needed to reach and to trust it.

    Attributes:
        name: what the user typed.
        key_name: the name under which its host key is kept (HostKeyAlias, else the host name).
        identity_files: private keys to try, in order; ``identities_only`` forbids all others.
        proxy_command: a command whose stdin and stdout are the connection; ``proxy_jump``: hops before the last.
        is_lab: the lab's own box, whose state tells when it is not up.
        home: the box's home where it is known beforehand (the lab).
    """

    name: str
    host: str
    port: int = 22
    user: str = ""
    key_name: str = ""
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: bool = True
    known_hosts: tuple[Path, ...] = ()
    proxy_command: str | None = None
    proxy_jump: tuple[str, ...] = ()
    is_lab: bool = False
    home: str | None = field(default=None, compare=False)


def resolve(target: str) -> Target:
    """The endpoint that ``target`` names.

    Raises:
        UsageError: the text is no target, or ~/.ssh/config cannot be read.
        BoxUnreachable: ``lab``, and no lab has been started.
    """
    if target == "lab":
        return _lab()
    match = _ADDRESS.fullmatch(target)
    if match is None or (match["port"] and not 0 < int(match["port"]) < 65536) or target.startswith("-"):
        raise UsageError(
            "WB-SSH-TARGET",
            f"{target!r} names no box",
            expected="lab, user@host, user@host:port, or an alias of ~/.ssh/config",
            next="workbook facts user@host",
        )
    host = match["host"].strip("[]")
    ssh_dir = home() / ".ssh"
    options = lookup(host, ssh_dir / "config")
    known = options.get("userknownhostsfile", f"{ssh_dir}/known_hosts {ssh_dir}/known_hosts2").split()
    known += options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2").split()
    jump = options.get("proxyjump", "none")
    command = options.get("proxycommand")
    name = options.get("hostname", host)
    return Target(
        name=target,
        host=name,
        port=int(match["port"] or options.get("port", "22")),
        user=match["user"] or options.get("user") or user_name(),
        key_name=options.get("hostkeyalias", ""),
        identity_files=tuple(Path(item).expanduser() for item in options.get_all("identityfile")),
        identities_only=options.get("identitiesonly", "no").lower() == "yes",
        agent=options.get("identityagent", "").lower() != "none",
        known_hosts=tuple(Path(item).expanduser() for item in known),
        proxy_command=command if command and command.lower() != "none" else None,
        proxy_jump=() if jump.lower() == "none" else tuple(hop.strip() for hop in jump.split(",")),
    )


def _lab() -> Target:
    state = paths.lab_dir() / "lab.json"
    try:
        lab = json.loads(state.read_text())
        return Target(
            name="lab",
            host=str(lab["host"]),
            port=int(lab["port"]),
            user=str(lab["user"]),
            identity_files=(Path(lab["client_key"]),),
            identities_only=True,
            agent=False,
            known_hosts=(Path(lab["known_hosts"]),),
            is_lab=True,
            home=str(lab["home"]),
        )
    except FileNotFoundError:
        raise lab_not_up(f"the lab is not up: there is no {state}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise lab_not_up(f"the lab's state {state} cannot be read: {error!r}") from error


def lab_not_up(message: str) -> BoxUnreachable:
    """The error for a lab that was never started, or that has died."""
    return BoxUnreachable("WB-LAB-NOT-UP", message, expected="a running lab", next=".venv/bin/workbook lab up")
