"""Ports that something listens on."""

from __future__ import annotations

import re

from helpers.box.facts.fact import Fact, Model, section, sections, shell, unreadable

COMMAND = shell(r"""
out=$(ss -H -tlnp 2>&1); s=$?
printf '== ss\n%s\n== exit %s\n' "$out" $s
""")
_LINE = re.compile(r"LISTEN\s+\d+\s+\d+\s+(?P<address>\S+):(?P<port>\d+)\s+\S+(?:\s+users:\((?P<users>.*)\))?\s*")
_USER = re.compile(r'\("(?P<name>[^"]*)",pid=(?P<pid>\d+),fd=\d+\)')


class Listener(Model):
    """One listening port. processes: name and id of those that are ours to see; empty for those of others."""

    address: str
    port: int
    processes: tuple[tuple[str, int], ...]


class Sockets(Model):
    listeners: tuple[Listener, ...]
    problem: str | None = None


def parse(text: str) -> Sockets:
    """From what `COMMAND` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    found = sections("sockets", text)
    lines, status = section("sockets", found, "ss"), section("sockets", found, "exit").rest
    if status != "0":
        return Sockets(listeners=(), problem=" ".join(lines.text.split()) or f"ss ended with exit status {status}")
    listeners = []
    for number, line in lines.lines:
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable("sockets", number, line, "a line of ss -H -tlnp")
        users = sorted({(user["name"], int(user["pid"])) for user in _USER.finditer(match["users"] or "")})
        address = match["address"].strip("[]")
        listeners.append(Listener(address=address, port=int(match["port"]), processes=tuple(users)))
    listeners.sort(key=lambda listener: (listener.port, listener.address))
    return Sockets(listeners=tuple(listeners))


FACT = Fact("sockets", COMMAND, parse)
