"""Facts for people: short lines, what is wrong first."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.box.facts.comparison import Comparison
from helpers.box.facts.gathering import BoxFacts
from helpers.box.facts.gpus import Gpu
from helpers.box.meter import human

_MARKS = {"same": " ", "differs": "~", "missing": "-", "matters": "!"}


def to_text(facts: BoxFacts, comparison: Comparison | None = None) -> str:
    """All that was found, and the table of laptop and box with ``!`` where a difference matters for tensors."""
    lines = [*_problems(facts), *_gpus(facts), *_machine(facts), *_engines(facts), *_python(facts)]
    if comparison is not None:
        lines += ["", *_table(comparison)]
    return "\n".join(lines)


def _problems(facts: BoxFacts) -> Iterator[str]:
    for name, problem in facts.problems.items():
        yield f"! {name}: {problem}"


def _gpus(facts: BoxFacts) -> Iterator[str]:
    if facts.gpus is None:
        return
    if facts.gpus.problem is not None:
        yield f"GPUs: none ({facts.gpus.problem})"
        return
    yield f"GPUs: {len(facts.gpus.gpus)}, driver {facts.gpus.driver}, CUDA {facts.gpus.cuda or 'unknown'}"
    for gpu in facts.gpus.gpus:
        yield f"  {_gpu(gpu)}"
        for part in gpu.slices:
            yield f"     MIG {part.device}: {part.profile} {part.uuid}"
    for process in facts.gpu_processes.processes if facts.gpu_processes is not None else ():
        index = next((str(gpu.index) for gpu in facts.gpus.gpus if gpu.uuid == process.gpu_uuid), process.gpu_uuid)
        memory = "?" if process.memory is None else process.memory
        yield f"  on {index}: {process.name}, process {process.pid} of {process.user or '?'}, {memory} MiB"


def _gpu(gpu: Gpu) -> str:
    used = "?" if gpu.memory_used is None else gpu.memory_used
    total = "?" if gpu.memory_total is None else gpu.memory_total
    parts = [f"{gpu.index} {gpu.name}: {used} of {total} MiB used"]
    if gpu.utilization is not None:
        parts.append(f"{gpu.utilization}% busy")
    if gpu.mig:
        parts.append("MIG")
    parts += [f"! {problem}" for problem in gpu.problems]
    return ", ".join(parts)


def _machine(facts: BoxFacts) -> Iterator[str]:
    if facts.cpu is not None:
        limit = f", limited to {facts.cpu.limit:g}" if facts.cpu.limit is not None else ""
        yield f"CPU: {facts.cpu.cores} cores{limit}, load {facts.cpu.load[0]:g}, {facts.cpu.model}"
    if facts.memory is not None:
        limit = f", limited to {human(facts.memory.limit)}" if facts.memory.limit is not None else ""
        yield f"memory: {human(facts.memory.available)} of {human(facts.memory.total)} available{limit}"
    for disk in facts.disk.disks if facts.disk is not None else ():
        yield f"disk {disk.mount}: {human(max(0, disk.free))} of {human(disk.size)} free ({disk.source})"


def _engines(facts: BoxFacts) -> Iterator[str]:
    if facts.servers is not None and not facts.servers.servers:
        yield "servers: none runs"
    engines = {engine.pid: engine for engine in (facts.engine.engines if facts.engine is not None else ())}
    for server in facts.servers.servers if facts.servers is not None else ():
        draft = f", draft {server.draft}" if server.draft else ""
        yield f"server: {server.engine}, process {server.pid}, port {server.port}, model {server.model}{draft}"
        engine = engines.get(server.pid)
        if engine is not None:
            where = engine.problem or f"sglang {engine.version} from {engine.package}, by {engine.executable}"
            yield f"  imports {where}"
        yield f"  {' '.join(server.argv)}"


def _python(facts: BoxFacts) -> Iterator[str]:
    if facts.python is not None:
        packages = ", ".join(f"{name} {version}" for name, version in facts.python.packages.items())
        yield f"python: {facts.python.version} at {facts.python.executable}: {packages or 'no packages that matter'}"
        if facts.python.torch_error:
            yield f"! torch does not import: {facts.python.torch_error}"


def _table(comparison: Comparison) -> Iterator[str]:
    yield f"  {'':22} {'laptop':24} box   (! matters for a comparison of tensors, ~ differs, - missing on one side)"
    for row in comparison.rows:
        mark = _MARKS[row.verdict]
        yield f"{mark} {row.what:22} {row.laptop or '-':24} {row.box or '-'}".rstrip()
        if row.why:
            yield f"    {row.why}"
