"""How GPUs are cut into MIG instances, by ``nvidia-smi -L``."""

from __future__ import annotations

import re

from helpers.box.facts import smi
from helpers.box.facts.answer import Absent, Answer, Fact, Question, unreadable

FACT = "mig"
QUESTION = Question(FACT, (("nvidia-smi", "-L"),), timeout=40.0)
_GPU = re.compile(r"GPU (\d+): (.+) \(UUID: ([^)]+)\)\s*")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^)]+)\)\s*")


class Instance(Fact):
    """One MIG instance. gpu: the index of its GPU. profile: such as ``3g.40gb``. device: its number on that GPU."""

    gpu: int
    profile: str
    device: int
    uuid: str


class Mig(Fact):
    """All instances; GPUs that are not cut have none."""

    instances: tuple[Instance, ...] = ()


def parse(answer: Answer) -> Mig | Absent:
    """Read the list.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-GPU-DRIVER, WB-FACT-TIMEOUT.
    """
    absent = smi.refused(FACT, answer)
    if absent is not None:
        return absent
    gpu: int | None = None
    instances: list[Instance] = []
    for number, line in enumerate(answer.lines, 1):
        if match := _GPU.fullmatch(line):
            gpu = int(match[1])
        elif (match := _INSTANCE.fullmatch(line)) and gpu is not None:
            instances.append(Instance(gpu=gpu, profile=match[1], device=int(match[2]), uuid=match[3]))
        elif line.strip() and not smi.tells_fault(line):
            raise unreadable(FACT, answer, number, "GPU <n>: <name> (UUID: ...), and its MIG instances below it")
    if gpu is None:
        raise unreadable(FACT, answer, len(answer.lines) + 1, "a line for each GPU")
    return Mig(instances=tuple(instances))
