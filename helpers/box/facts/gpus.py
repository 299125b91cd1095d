"""GPUs as nvidia-smi tells: memory, load, MIG slices, and what is wrong with them."""

from __future__ import annotations

import re

from helpers.box.facts.fact import Fact, Model, section, sections, shell, unreadable

FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "memory.used", "utilization.gpu",
    "temperature.gpu", "power.draw", "mig.mode.current", "compute_cap",
)  # fmt: skip
# Old drivers refuse a whole query for one field that they do not know.
_OLD = 10
COMMAND = shell(rf"""
q() {{ nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1; }}
out=$(q {",".join(FIELDS)}); s=$?
case $out in *"not a valid field"*) out=$(q {",".join(FIELDS[:_OLD])}); s=$?;; esac
printf '== query\n%s\n== exit %s\n== list\n' "$out" $s
if [ $s = 0 ]; then nvidia-smi -L 2>&1; fi
echo '== cuda'
if [ $s = 0 ]; then nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -n 1; fi
""")

_SICK = re.compile(r"unknown error|err!|requires reset|is lost|gpu access blocked", re.I)
_NOT_KNOWN = re.compile(r"\[.*\]|N/A|ERR!|", re.I)
_GPU = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[0-9a-fA-F-]+)\)")
_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")


class MigSlice(Model):
    """One MIG device: its profile (``3g.40gb``), number within the GPU, and UUID."""

    profile: str
    device: int
    uuid: str


class Gpu(Model):
    """One GPU. Memory in MiB, load in percent, temperature in degrees C, power in W; None where nothing is told."""

    index: int
    uuid: str
    name: str
    bus_id: str
    memory_total: int | None
    memory_used: int | None
    utilization: int | None
    temperature: int | None
    power: float | None
    mig: bool | None
    compute_capability: str | None
    slices: tuple[MigSlice, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def memory_free(self) -> int | None:
        if self.memory_total is None or self.memory_used is None:
            return None
        return self.memory_total - self.memory_used


class Gpus(Model):
    """All GPUs of a box. ``problem`` says why there are none, or why nvidia-smi gave up."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]
    problem: str | None


def parse(text: str) -> Gpus:
    """From what `COMMAND` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    found = sections("gpus", text)
    query, status = section("gpus", found, "query"), section("gpus", found, "exit").rest
    if status != "0":
        problem = " ".join(query.text.split()) or f"nvidia-smi ended with exit status {status}"
        return Gpus(driver=None, cuda=None, gpus=(), problem=_explained(problem, status))
    slices = _slices(found["list"].lines if "list" in found else ())
    gpus: list[Gpu] = []
    drivers: set[str] = set()
    for number, line in query.lines:
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) not in (_OLD, len(FIELDS)) or not fields[0].isdigit():
            raise unreadable("gpus", number, line, f"{len(FIELDS)} fields: {', '.join(FIELDS)}")
        drivers.add(fields[4])
        gpus.append(_gpu(fields, slices.get(int(fields[0]), ())))
    cuda = found["cuda"].text.strip() if "cuda" in found else ""
    none = None if gpus else "nvidia-smi knows of no GPU"
    return Gpus(driver=", ".join(sorted(drivers)) or None, cuda=cuda or None, gpus=tuple(gpus), problem=none)


def _gpu(fields: list[str], slices: tuple[MigSlice, ...]) -> Gpu:
    sick = tuple(
        f"{name}: {value.strip('[]')}" for name, value in zip(FIELDS, fields, strict=False) if _SICK.search(value)
    )
    power = _number(fields[9])
    mig = fields[10] if len(fields) > _OLD else ""
    capability = fields[11] if len(fields) > _OLD else ""
    return Gpu(
        index=int(fields[0]),
        uuid=fields[1],
        name=fields[2],
        bus_id=fields[3],
        memory_total=_whole(fields[5]),
        memory_used=_whole(fields[6]),
        utilization=_whole(fields[7]),
        temperature=_whole(fields[8]),
        power=power,
        mig={"enabled": True, "disabled": False}.get(mig.lower()),
        compute_capability=None if _NOT_KNOWN.fullmatch(capability) else capability,
        slices=slices,
        problems=sick,
    )


def _slices(lines: tuple[tuple[int, str], ...]) -> dict[int, tuple[MigSlice, ...]]:
    result: dict[int, tuple[MigSlice, ...]] = {}
    index = -1
    for _, line in lines:
        if gpu := _GPU.match(line):
            index = int(gpu[1])
        elif (mig := _MIG.match(line)) and index >= 0:
            one = MigSlice(profile=mig[1], device=int(mig[2]), uuid=mig[3])
            result[index] = (*result.get(index, ()), one)
    return result


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _whole(value: str) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _explained(problem: str, status: str) -> str:
    if status == "127" or "not found" in problem:
        return "there is no nvidia-smi on the PATH: a box without NVIDIA GPUs, or a container without the driver"
    if "version mismatch" in problem.lower():
        return f"{problem} (the driver was updated under a running kernel module: reboot, or reload the module)"
    return problem


FACT = Fact("gpus", COMMAND, parse)
