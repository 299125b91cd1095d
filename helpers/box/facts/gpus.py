"""The box's GPUs, by nvidia-smi."""

from __future__ import annotations

import re

from helpers.box.facts import smi
from helpers.box.facts.answer import Absent, Answer, Fact, Question, unreadable

FACT = "gpus"
_FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,"
    "power.draw,mig.mode.current,ecc.errors.uncorrected.volatile.total"
)
# Drivers before 510 do not know compute_cap, and refuse the whole query for one field.
QUESTION = Question(
    FACT,
    tuple(("nvidia-smi", f"--query-gpu={fields}", "--format=csv") for fields in (f"{_FIELDS},compute_cap", _FIELDS)),
    timeout=40.0,  # eight GPUs without persistence mode are woken one by one
)
# The first compute capability whose tensor cores calculate in the type.
_SINCE = {"bfloat16": (8, 0), "float8": (8, 9), "float4": (10, 0)}


class Gpu(Fact):
    """One GPU. None is what nvidia-smi does not tell (``[N/A]``): memory on unified-memory parts, use under MIG.

    Attributes:
        memory_*: MiB. utilization: percent. temperature: °C. power: W.
        mig: whether it is cut into MIG instances.
        uncorrected: ECC errors since the driver was loaded that could not be corrected: numbers may be wrong.
        compute_capability: such as ``9.0``.
        faults: what it answered with an error instead, ``memory.used: ERR!``.
    """

    index: int
    name: str
    uuid: str | None = None
    bus_id: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    utilization: int | None = None
    temperature: int | None = None
    power: float | None = None
    mig: bool | None = None
    uncorrected: int | None = None
    compute_capability: str | None = None
    faults: tuple[str, ...] = ()

    def calculates(self, kind: str) -> bool | None:
        """Whether its tensor cores calculate in ``bfloat16``, ``float8`` or ``float4``; None where it is not told."""
        if self.compute_capability is None:
            return None
        major, _, minor = self.compute_capability.partition(".")
        return (int(major), int(minor)) >= _SINCE[kind]


class Gpus(Fact):
    """All GPUs. ``faults``: lines of nvidia-smi's that tell of one that it could not ask, or warn of one."""

    driver: str | None = None
    gpus: tuple[Gpu, ...]
    faults: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """No fault, and no error that could not be corrected."""
        return not self.faults and not any(gpu.faults or gpu.uncorrected for gpu in self.gpus)


def parse(answer: Answer) -> Gpus | Absent:
    """Read the table.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-GPU-DRIVER, WB-FACT-GPU-LOST, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = smi.refused(FACT, answer)
    if absent is not None:
        return absent
    rows, faults = smi.table(FACT, answer, ("index", "name"))
    if not rows:
        raise unreadable(FACT, answer, len(answer.lines) + 1, "a row for each GPU")
    drivers = [driver for row in rows if (driver := smi.text(row.cells.get("driver_version")))]
    return Gpus(
        driver=drivers[0] if drivers else None,
        gpus=tuple(_gpu(answer, row) for row in rows),
        faults=faults,
    )


def _gpu(answer: Answer, row: smi.Row) -> Gpu:
    index = smi.whole(FACT, answer, row, "index")
    name = smi.text(row.cells["name"])
    if index is None or name is None:
        raise unreadable(FACT, answer, row.number, "an index and a name")
    capability = smi.text(row.cells.get("compute_cap"))
    if capability is not None and not re.fullmatch(r"\d+\.\d+", capability):
        raise unreadable(FACT, answer, row.number, f"a compute capability such as 9.0, not {capability!r}")
    mode = smi.text(row.cells.get("mig.mode.current"))
    return Gpu(
        index=index,
        name=name,
        uuid=smi.text(row.cells.get("uuid")),
        bus_id=smi.text(row.cells.get("pci.bus_id")),
        memory_total=smi.whole(FACT, answer, row, "memory.total"),
        memory_used=smi.whole(FACT, answer, row, "memory.used"),
        memory_free=smi.whole(FACT, answer, row, "memory.free"),
        utilization=smi.whole(FACT, answer, row, "utilization.gpu"),
        temperature=smi.whole(FACT, answer, row, "temperature.gpu"),
        power=smi.number(FACT, answer, row, "power.draw"),
        mig=None if mode is None else mode == "Enabled",
        uncorrected=smi.whole(FACT, answer, row, "ecc.errors.uncorrected.volatile.total"),
        compute_capability=capability,
        faults=tuple(f"{column}: {fault}" for column, cell in row.cells.items() if (fault := smi.fault(cell))),
    )
