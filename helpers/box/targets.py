"""Whom to connect to: ``user@host[:port]``, an alias of ~/.ssh/config, or ``lab``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers import paths
from helpers.box import hostkeys, sshasked
from helpers.box.sshconfig import Options, lookup
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
        identity_files: keys to try, in order (a public one picks its private half from the agent);
            ``identities_only`` forbids all others.
        agent: whether an agent may be asked; ``agent_socket``: which, where it is not that of SSH_AUTH_SOCK.
        known_hosts: files that can hold host keys; ``unkept``: what the configuration names in their place and is none.
        connect_timeout: seconds, as the configuration has it.
        proxy_command: a command whose stdin and stdout are the connection; ``proxy_jump``: hops before the last.
        is_lab: the lab's own box, whose state tells when it is not up.
        home: the box's home where it is known beforehand (the lab).
        note: what has to be said beside an error about how the configuration was read.
    """

    name: str
    host: str
    port: int = 22
    user: str = ""
    key_name: str = ""
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: bool = True
    agent_socket: str = ""
    known_hosts: tuple[Path, ...] = ()
    unkept: str = ""
    connect_timeout: float | None = None
    proxy_command: str | None = None
    proxy_jump: tuple[str, ...] = ()
    is_lab: bool = False
    home: str | None = field(default=None, compare=False)
    note: str = field(default="", compare=False)


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
    note = ""
    try:
        options = sshasked.ask(host, match["user"], match["port"])
    except sshasked.NoAnswer as error:
        options = lookup(host, home() / ".ssh/config")
        note = f"~/.ssh/config was read without ssh -G ({error}), and /etc/ssh/ssh_config was not read"
    found = endpoint(target, host, options, home=home(), environment=os.environ)
    port = int(match["port"] or found.port)
    return replace(found, port=port, user=match["user"] or found.user or user_name(), note=note)


def endpoint(name: str, host: str, options: Options, *, home: Path, environment: Mapping[str, str]) -> Target:
    """What the options of ``host`` make of it; the user is empty where they name none."""
    files = sshasked.paths(options.get("userknownhostsfile", f"{home}/.ssh/known_hosts {home}/.ssh/known_hosts2"))
    shared = options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    mine = hostkeys.keepers(Path(_tilde(item, home)) for item in files)
    jump = options.get("proxyjump", "none")
    command = options.get("proxycommand")
    agent = _agent(options.get("identityagent", ""), home, environment)
    return Target(
        name=name,
        host=options.get("hostname", host),
        port=int(options.get("port", "22")),
        user=options.get("user", ""),
        key_name=options.get("hostkeyalias", ""),
        identity_files=tuple(Path(_tilde(item, home)) for item in options.get_all("identityfile")),
        identities_only=options.get("identitiesonly", "no").lower() == "yes",
        agent=agent.lower() != "none",
        agent_socket=agent,
        known_hosts=(
            # A host key that is to be accepted once has to be kept somewhere, or it would be unknown for ever.
            *(mine or (home / ".ssh/known_hosts",)),
            *hostkeys.keepers(Path(_tilde(item, home)) for item in sshasked.paths(shared)),
        ),
        unkept="" if mine else f"UserKnownHostsFile {' '.join(files)}",
        connect_timeout=_seconds(options.get("connecttimeout", "")),
        proxy_command=command if command and command.lower() != "none" else None,
        proxy_jump=() if jump.lower() == "none" else tuple(hop.strip() for hop in jump.split(",")),
    )


def _tilde(path: str, home: Path) -> str:
    return f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _agent(given: str, home: Path, environment: Mapping[str, str]) -> str:
    """The agent's socket as IdentityAgent names it; ``none``, or empty for that of SSH_AUTH_SOCK."""
    if given == "SSH_AUTH_SOCK":
        return ""
    if re.fullmatch(r"\$\w+", given):
        return environment.get(given[1:], given)  # one that is not set is told as what it is when it is looked for
    given = re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], found[0]), given)
    return _tilde(re.sub(r"^%d(?=/)", lambda _: str(home), given), home)


def _seconds(given: str) -> float | None:
    """A time of ssh_config(5): ``90``, ``1m30s``; None where there is none."""
    if not re.fullmatch(r"(?i)\d+|(\d+[smhdw])+", given):
        return None
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    total = sum(int(number) * units[unit.lower()] for number, unit in re.findall(r"(?i)(\d+)([smhdw]?)", given))
    return float(total) or None


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
