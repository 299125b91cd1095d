"""The box's processors, by ``lscpu``, else by /proc/cpuinfo."""

from __future__ import annotations

import re

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, unreadable

FACT = "cpu"
QUESTION = Question(FACT, (("lscpu",), ("cat", "/proc/cpuinfo")))
# What tells whether kernels of two CPUs calculate alike.
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "sve", "bf16")
_PAIR = re.compile(r"\s*([^:]+?)\s*:(?:\s+(.*?))?\s*")


class Cpu(Fact):
    """All processors together.

    Attributes:
        cpus: threads that run at a time. sockets, cores_per_socket, threads_per_core: None from /proc/cpuinfo on ARM.
        features: those of `FEATURES` that it has.
    """

    model: str | None = None
    architecture: str | None = None
    cpus: int
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    features: tuple[str, ...] = ()


def parse(answer: Answer) -> Cpu | Absent:
    """Read either of the two.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    if answer.exit_status:
        raise failed(FACT, answer, "a description of the processors")
    return _cpuinfo(answer) if answer.program == "cat" else _lscpu(answer)


def _lscpu(answer: Answer) -> Cpu:
    numbers: dict[str, int] = {}
    pairs: dict[str, str] = {}
    for number, line in enumerate(answer.lines, 1):
        if not line.strip():
            continue
        match = _PAIR.fullmatch(line)
        if match is None:
            raise unreadable(FACT, answer, number, "a name, a colon, and a value")
        if match[1] not in pairs:  # two kinds of cores are told one after the other; the first is shown
            numbers[match[1]], pairs[match[1]] = number, match[2] or ""
    if "CPU(s)" not in pairs:
        raise unreadable(FACT, answer, len(answer.lines) + 1, "a line CPU(s): <n>")

    def whole(name: str) -> int | None:
        value = pairs.get(name, "-")
        if value == "-":  # what a virtual machine or an ARM part does not tell
            return None
        if not value.isdigit():
            raise unreadable(FACT, answer, numbers[name], "a whole number")
        return int(value)

    cpus = whole("CPU(s)")
    if cpus is None:
        raise unreadable(FACT, answer, numbers["CPU(s)"], "a whole number")
    return Cpu(
        model=None if pairs.get("Model name") == "-" else pairs.get("Model name"),
        architecture=pairs.get("Architecture"),
        cpus=cpus,
        sockets=whole("Socket(s)"),
        cores_per_socket=whole("Core(s) per socket"),
        threads_per_core=whole("Thread(s) per core"),
        numa_nodes=whole("NUMA node(s)"),
        features=_features(pairs.get("Flags", "")),
    )


def _cpuinfo(answer: Answer) -> Cpu:
    processors: list[dict[str, str]] = []
    for number, line in enumerate(answer.lines, 1):
        if not line.strip():
            continue
        match = _PAIR.fullmatch(line)
        if match is None:
            raise unreadable(FACT, answer, number, "a name, a colon, and a value")
        if match[1] == "processor":
            processors.append({})
        if processors:
            processors[-1][match[1]] = match[2] or ""
    if not processors:
        raise unreadable(FACT, answer, len(answer.lines) + 1, "a line processor: <n> for each of them")
    first = processors[0]
    sockets = {processor["physical id"] for processor in processors if "physical id" in processor}
    cores = first.get("cpu cores", "")
    return Cpu(
        model=first.get("model name"),
        cpus=len(processors),
        sockets=len(sockets) or None,
        cores_per_socket=int(cores) if cores.isdigit() else None,
        features=_features(first.get("flags") or first.get("Features", "")),
    )


def _features(flags: str) -> tuple[str, ...]:
    had = set(flags.split())
    return tuple(feature for feature in FEATURES if feature in had)
