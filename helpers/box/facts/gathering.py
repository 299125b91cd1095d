"""All facts of a box, asked at the same time; what cannot be had is a named problem, not the end of the rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pydantic import Field

from helpers.box.facts import cpu, disk, engine, gpu_processes, gpus, memory, python, servers, sockets
from helpers.box.facts.cpu import Cpu
from helpers.box.facts.disk import Disks
from helpers.box.facts.engine import Engines
from helpers.box.facts.fact import Fact, Model
from helpers.box.facts.gpu_processes import GpuProcesses
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.memory import Memory
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Servers
from helpers.box.facts.sockets import Sockets
from helpers.errors import RemoteFailed, UsageError

if TYPE_CHECKING:
    from helpers.box.box import Box

FACTS = {
    module.FACT.name: module.FACT
    for module in (gpus, gpu_processes, cpu, memory, disk, python, engine, servers, sockets)
}
_DEADLINE = 90.0
_AT_ONCE = 4


class BoxFacts(Model):
    """What a box is and does. A fact that was not asked for, or could not be had, is None; ``problems`` says why."""

    box: str
    gpus: Gpus | None = None
    gpu_processes: GpuProcesses | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    disk: Disks | None = None
    python: Python | None = None
    engine: Engines | None = None
    servers: Servers | None = None
    sockets: Sockets | None = None
    problems: dict[str, str] = Field(default_factory=dict)


def gather(box: Box, names: list[str] | None = None, *, python: str = "python3") -> BoxFacts:
    """Ask ``box`` for facts.

    Args:
        names: of `FACTS`; all by default. python: the interpreter that the packages are asked of.

    Raises:
        UsageError: WB-FACT-UNKNOWN. BoxUnreachable: the box is out of reach.
    """
    wanted = list(FACTS) if names is None else names
    for name in wanted:
        if name not in FACTS:
            raise UsageError(
                "WB-FACT-UNKNOWN",
                f"there is no fact {name!r}",
                expected=f"one of {', '.join(FACTS)}",
                next=f"workbook facts {box.name}",
            )
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="box-facts") as pool:
        answers = dict(zip(wanted, pool.map(lambda name: _ask(box, FACTS[name], python), wanted), strict=True))
    found = {name: answer for name, answer in answers.items() if isinstance(answer, Model)}
    problems = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    return BoxFacts.model_validate({"box": box.name, "problems": problems, **found})


def command_of(name: str, python_name: str = "python3") -> list[str]:
    """The arguments of the read-only command behind a fact."""
    makers = {"python": python.command, "engine": engine.command}
    return list(makers[name](python_name) if name in makers else FACTS[name].command)


def _ask(box: Box, fact: Fact, interpreter: str) -> Model | str:
    """The answer, or why there is none."""
    try:
        result = box.run(command_of(fact.name, interpreter), check=False, idempotent=True, deadline=_DEADLINE)
        if not result.ok:
            last = (result.stderr or result.stdout).strip().splitlines()[-1:] or [f"exit status {result.exit_status}"]
            return last[0]
        return fact.parse(result.stdout)
    except RemoteFailed as error:
        return error.message
