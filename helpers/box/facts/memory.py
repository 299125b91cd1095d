"""Main memory, in bytes: of the box, and what a container allows of it."""

from __future__ import annotations

import re

from helpers.box.facts.fact import Fact, Model, section, sections, shell, unreadable

COMMAND = shell(r"""
echo "== meminfo"; cat /proc/meminfo
echo "== limit"; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1
""")
_UNLIMITED = 1 << 60


class Memory(Model):
    """All in bytes. limit: of the container, None for no limit."""

    total: int
    available: int
    swap_total: int
    swap_free: int
    limit: int | None


def parse(text: str) -> Memory:
    """From what `COMMAND` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    found = sections("memory", text)
    meminfo = section("memory", found, "meminfo")
    values: dict[str, int] = {}
    for number, line in meminfo.lines:
        match = re.fullmatch(r"([\w()]+):\s+(\d+)(?: kB)?", line.strip())
        if match is None:
            raise unreadable("memory", number, line, "a line of /proc/meminfo")
        values[match[1]] = int(match[2]) * 1024
    for name in ("MemTotal", "MemAvailable"):
        if name not in values:
            number, line = meminfo.lines[-1] if meminfo.lines else (1, "")
            raise unreadable("memory", number, line, f"{name} in /proc/meminfo")
    limit = found["limit"].text.strip() if "limit" in found else ""
    return Memory(
        total=values["MemTotal"],
        available=values["MemAvailable"],
        swap_total=values.get("SwapTotal", 0),
        swap_free=values.get("SwapFree", 0),
        limit=int(limit) if limit.isdigit() and int(limit) < _UNLIMITED else None,
    )


FACT = Fact("memory", COMMAND, parse)
