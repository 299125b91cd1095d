"""The box's memory, and the limit that a container may set to it."""

from __future__ import annotations

import re

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, unreadable

FACT = "memory"
_MEMINFO = "/proc/meminfo"
# The same limit in the two generations of control groups; grep -H says which file a line is from, -s is silent about
# the files that are not there.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USAGES = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
QUESTION = Question(FACT, (("grep", "-sH", "", _MEMINFO, *_LIMITS, *_USAGES),))
_LINE = re.compile(r"([^:\s]+):\s+(\d+)( kB)?\s*")
_KNOWN = ("MemTotal", "MemFree", "MemAvailable", "SwapTotal", "SwapFree")


class Memory(Fact):
    """In MiB.

    Attributes:
        available: what new programs can have without swapping; None from kernels before 3.14.
        limit, limit_used: of this login's control group, None where nothing is limited.
    """

    total: int
    free: int | None = None
    available: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    limit: int | None = None
    limit_used: int | None = None


def parse(answer: Answer) -> Memory | Absent:
    """Read the files' lines, each with or without its file's name in front.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    known: dict[str, int] = {}
    groups: dict[str, int | None] = {}
    for number, line in enumerate(answer.lines, 1):
        file, colon, rest = line.partition(":")
        if colon and file in (*_LIMITS, *_USAGES):
            if rest != "max" and not rest.isdigit():
                raise unreadable(FACT, answer, number, "a number of bytes, or max")
            groups[file] = None if rest == "max" else int(rest) >> 20
            continue
        content = rest if file == _MEMINFO else line
        match = _LINE.fullmatch(content)
        if match is None:
            if not content.strip():
                continue
            raise unreadable(FACT, answer, number, "a name, a colon, and a number of kB")
        if match[1] in _KNOWN and not match[3]:  # only numbers of pages stand without
            raise unreadable(FACT, answer, number, "a number of kB")
        known[match[1]] = int(match[2]) >> 10
    if "MemTotal" not in known:
        if answer.exit_status and not answer.lines:
            raise failed(FACT, answer, f"the lines of {_MEMINFO}")
        raise unreadable(FACT, answer, len(answer.lines) + 1, "a line MemTotal: <n> kB")
    limit = next((groups[file] for file in _LIMITS if file in groups), None)
    limited = limit is not None and limit < known["MemTotal"]  # without a limit, the older files tell a huge number
    return Memory(
        total=known["MemTotal"],
        free=known.get("MemFree"),
        available=known.get("MemAvailable"),
        swap_total=known.get("SwapTotal"),
        swap_free=known.get("SwapFree"),
        limit=limit if limited else None,
        limit_used=next((groups[file] for file in _USAGES if file in groups), None) if limited else None,
    )
