"""Disks, in bytes: where captures and models lie, and the shared memory that NCCL wants."""

from __future__ import annotations

import re

from helpers.box.facts.fact import Fact, Model, shell, unreadable

COMMAND = shell(r"""
df -P -B1 -- "$HOME" /tmp /dev/shm "${HF_HOME:-$HOME/.cache}" /data /mnt /workspace 2>/dev/null
exit 0
""")
_LINE = re.compile(r"(?P<source>.+?)\s+(?P<size>\d+)\s+(?P<used>\d+)\s+(?P<free>-?\d+)\s+(?:\d+%|-)\s+(?P<mount>/.*)")


class Disk(Model):
    """One file system: bytes in all, used, and free for this login."""

    source: str
    mount: str
    size: int
    used: int
    free: int


class Disks(Model):
    disks: tuple[Disk, ...]


def parse(text: str) -> Disks:
    """From what `COMMAND` printed; each file system once.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    disks: dict[str, Disk] = {}
    lines = text.splitlines()
    if not lines or not lines[0].startswith("Filesystem"):
        raise unreadable("disk", 1, lines[0] if lines else "", "the heading of df -P")
    for number, line in enumerate(lines[1:], 2):
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable("disk", number, line, "source, bytes, used, available, capacity, mount point")
        sizes = {key: int(match[key]) for key in ("size", "used", "free")}
        disks.setdefault(match["mount"], Disk(source=match["source"], mount=match["mount"], **sizes))
    return Disks(disks=tuple(disks.values()))


FACT = Fact("disk", COMMAND, parse)
