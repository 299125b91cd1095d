"""The processor: what it is, how many cores may be used, how busy it is."""

from __future__ import annotations

import re

from helpers.box.facts.fact import Fact, Model, section, sections, shell, unreadable

COMMAND = shell(r"""
echo "== cores"; env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc
echo "== load"; cat /proc/loadavg
echo "== limit"; cat /sys/fs/cgroup/cpu.max 2>/dev/null
echo "== info"; sed '/^$/q' /proc/cpuinfo
""")
# The instructions that decide what a CPU engine can do.
_INTERESTING = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "sve", "sve2", "bf16", "i8mm")


class Cpu(Model):
    """cores: usable by this login. limit: cores' worth of time that a container allows, None for no limit."""

    model: str
    cores: int
    load: tuple[float, float, float]
    limit: float | None
    instructions: tuple[str, ...]


def parse(text: str) -> Cpu:
    """From what `COMMAND` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    found = sections("cpu", text)
    cores, load = section("cpu", found, "cores"), section("cpu", found, "load")
    if not cores.text.strip().isdigit():
        number, line = cores.lines[0] if cores.lines else (1, "")
        raise unreadable("cpu", number, line, "the number of cores")
    loads = re.match(r"([\d.]+) ([\d.]+) ([\d.]+) ", load.text)
    if loads is None:
        number, line = load.lines[0] if load.lines else (3, "")
        raise unreadable("cpu", number, line, "three loads, as in /proc/loadavg")
    info = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", section("cpu", found, "info").text, re.M))
    flags = (info.get("flags") or info.get("Features") or "").split()
    limit = re.match(r"(\d+) (\d+)", found["limit"].text) if "limit" in found else None
    return Cpu(
        model=info.get("model name") or info.get("CPU part") or "unknown",
        cores=int(cores.text),
        load=(float(loads[1]), float(loads[2]), float(loads[3])),
        limit=int(limit[1]) / int(limit[2]) if limit else None,
        instructions=tuple(name for name in _INTERESTING if name in flags),
    )


FACT = Fact("cpu", COMMAND, parse)
