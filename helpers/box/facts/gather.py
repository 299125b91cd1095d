"""All facts of a box in one trip, and one more for what the first answers ask for."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from helpers.box.facts import cpu, disk, gpu_processes, gpus, memory, mig, python, servers, sockets
from helpers.box.facts.answer import Absent, Answer, Fact, Question, as_text
from helpers.box.facts.asking import ask
from helpers.box.facts.cpu import Cpu
from helpers.box.facts.disk import Disks
from helpers.box.facts.gpu_processes import GpuProcesses
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.memory import Memory
from helpers.box.facts.mig import Mig
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Process, Servers
from helpers.box.facts.sockets import Sockets
from helpers.errors import RemoteFailed

if TYPE_CHECKING:
    from helpers.box.box import Box

T = TypeVar("T")
SHARED_MEMORY = "/dev/shm"  # NCCL and the schedulers talk through it; a container's default of 64 MiB is too little
MODELS = "model_folders"
HOLDERS = "holders"


class Problem(Fact):
    """A fact that could not be read. ``error``: code, message, expected, next, and lines where there are some."""

    error: dict[str, Any]


class Command(Fact):
    """How a fact was asked: evidence."""

    command: str
    exit_status: int
    seconds: float


class Facts(Fact):
    """A box at one moment. Each fact is what was read, that it is absent, or the problem with it.

    Attributes:
        taken: ISO 8601, UTC. seconds: how long the asking took.
        mig: None where no GPU is cut.
    """

    box: str
    user: str
    host: str
    taken: str
    seconds: float
    gpus: Gpus | Absent | Problem
    mig: Mig | Absent | Problem | None = None
    gpu_processes: GpuProcesses | Absent | Problem
    cpu: Cpu | Absent | Problem
    memory: Memory | Absent | Problem
    disk: Disks | Absent | Problem
    python: Python | Absent | Problem
    sockets: Sockets | Absent | Problem
    servers: Servers | Absent | Problem
    commands: dict[str, Command] = Field(default_factory=dict)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return tuple(value for value in values if isinstance(value, Problem))


def read(parse: Callable[[Answer], T], answer: Answer) -> T | Problem:
    """What ``parse`` makes of an answer; one unreadable fact does not hide the others."""
    try:
        return parse(answer)
    except RemoteFailed as error:
        return Problem(error=error.to_json()["error"])


def gather(
    box: Box,
    *,
    interpreter: str = "python3",
    folders: Sequence[str] = (),
    first: Sequence[Question] = (),
    then: Callable[[Facts, Mapping[str, Answer]], Sequence[Question]] = lambda facts, answers: (),
    progress: bool = True,
) -> tuple[Facts, dict[str, Answer]]:
    """Ask everything.

    Args:
        interpreter: the box's Python whose packages are meant.
        folders: further folders whose disks are looked at; ``~/`` is the box's home.
        first, then: a caller's own questions, asked in the same trips: beside the facts, and after them (given the
            facts and the first answers).
        progress: after two seconds say on stderr what is awaited.

    Returns:
        the facts, and the answers to the caller's own questions by their names.

    Raises:
        BoxUnreachable, RemoteFailed: the box cannot be asked at all.
    """
    began, taken = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    paths = list(dict.fromkeys([box.home, *map(box.path, folders), SHARED_MEMORY]))
    pythons = ("python3", interpreter)
    asked = [
        gpus.QUESTION,
        gpu_processes.QUESTION,
        cpu.QUESTION,
        memory.QUESTION,
        disk.question(paths),
        python.question(interpreter),
        sockets.QUESTION,
        servers.question(),
    ]
    answers = ask(box, [*asked, *first], pythons=pythons, progress=progress)
    facts = Facts(
        box=box.name,
        user=box.user,
        host=box.host,
        taken=taken,
        seconds=0.0,
        gpus=read(gpus.parse, answers[gpus.FACT]),
        gpu_processes=read(gpu_processes.parse, answers[gpu_processes.FACT]),
        cpu=read(cpu.parse, answers[cpu.FACT]),
        memory=read(memory.parse, answers[memory.FACT]),
        disk=read(lambda answer: disk.parse(answer, paths), answers[disk.FACT]),
        python=read(python.parse, answers[python.FACT]),
        sockets=read(sockets.parse, answers[sockets.FACT]),
        servers=read(servers.parse, answers[servers.FACT]),
    )
    later = [*_follow(facts, paths), *then(facts, answers)]
    more = ask(box, later, pythons=pythons, progress=progress) if later else {}
    facts = _completed(facts, more, paths)
    own = {question.name for question in asked}
    commands = {
        name: Command(command=as_text(answer), exit_status=answer.exit_status, seconds=answer.seconds)
        for name, answer in {**answers, **more}.items()
    }
    extra = {name: answer for name, answer in {**answers, **more}.items() if name not in own}
    return facts.model_copy(update={"seconds": round(time.monotonic() - began, 2), "commands": commands}), extra


def model_folders(facts: Facts, known: Sequence[str]) -> list[str]:
    """Where the models of running servers lie, beside the folders that are known already."""
    if not isinstance(facts.servers, Servers):
        return []
    found = [
        posixpath.normpath(posixpath.join(server.process.cwd or "/", path))
        for server in facts.servers.servers
        for path in (server.launched.model, server.launched.draft)
        if path is not None and path.startswith(("/", "."))
    ]
    return [path for path in dict.fromkeys(found) if path not in known]


def _follow(facts: Facts, paths: Sequence[str]) -> list[Question]:
    """Questions that the first answers ask for."""
    later: list[Question] = []
    if isinstance(facts.gpus, Gpus) and any(gpu.mig for gpu in facts.gpus.gpus):
        later.append(mig.QUESTION)
    if pids := _holders(facts):
        question = servers.question(pids=pids)
        later.append(Question(HOLDERS, question.commands, timeout=question.timeout))
    if models := model_folders(facts, paths):
        question = disk.question(models)
        later.append(Question(MODELS, question.commands, timeout=question.timeout))
    return later


def _holders(facts: Facts) -> list[int]:
    known = facts.gpu_processes
    return sorted({each.pid for each in known.processes}) if isinstance(known, GpuProcesses) else []


def _completed(facts: Facts, more: Mapping[str, Answer], paths: Sequence[str]) -> Facts:
    changes: dict[str, object] = {}
    if mig.FACT in more:
        changes["mig"] = read(mig.parse, more[mig.FACT])
    if MODELS in more:
        models = model_folders(facts, paths)
        disks = read(lambda answer: disk.parse(answer, models), more[MODELS])
        if isinstance(disks, Disks) and isinstance(facts.disk, Disks):
            disks = Disks(disks=facts.disk.disks + disks.disks, missing=facts.disk.missing + disks.missing)
        changes["disk"] = disks
    known = facts.gpu_processes
    if isinstance(known, GpuProcesses):
        owners: dict[int, Process] = {}
        if HOLDERS in more:
            pids = _holders(facts)
            described = read(lambda answer: servers.parse(answer, pids), more[HOLDERS])
            if isinstance(described, Servers):
                owners = {process.pid: process for process in described.processes}
        indices = {gpu.uuid: gpu.index for gpu in facts.gpus.gpus} if isinstance(facts.gpus, Gpus) else {}
        instances = changes.get("mig")
        if isinstance(instances, Mig):
            indices |= {instance.uuid: instance.gpu for instance in instances.instances}
        changes["gpu_processes"] = known.described(owners, indices)
    return facts.model_copy(update=changes)
