"""Facts of a box as text for people. Pure: an overview in, lines out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from helpers.box.facts.answer import Absent, Fact
from helpers.box.facts.cpu import Cpu
from helpers.box.facts.disk import Disks
from helpers.box.facts.gather import Facts, Problem
from helpers.box.facts.gpu_processes import GpuProcesses
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.memory import Memory
from helpers.box.facts.mig import Mig
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Servers
from helpers.box.facts.sockets import Sockets
from helpers.paths import error_page
from helpers.serving.overview import Overview, Seen
from helpers.source.served import Engine

LISTED_PORTS = 12
CELL = 32  # characters of a table's cell


def describe(overview: Overview) -> str:
    """The whole page."""
    facts = overview.facts
    lines = [f"{facts.box}: {facts.user}@{facts.host}, {facts.taken}, asked in {facts.seconds:.1f} s", ""]
    lines += [*_gpus(facts), *_holders(facts), *_machine(facts), *_disks(facts), *_ports(facts)]
    lines += ["", *_interpreter(overview), "", *_servers(overview), "", *_comparison(overview)]
    for problem in overview.problems:
        error = problem.error
        lines += ["", f"{error['code']}: {error['message']}", f"  expected: {error['expected']}"]
        lines += [*(f"  | {line}" for line in error.get("lines", [])), f"  next: {error['next']}"]
        lines.append(f"  page: {error_page(error['code'])}")
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as columns of equal width; the first row is the header."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def missing(name: str, fact: Fact | None) -> list[str]:
    """The line of a fact that is absent or could not be read."""
    if isinstance(fact, Absent):
        return [f"{name}: {fact.absent}"]
    return [f"{name}: could not be read, see below ({fact.error['code']})"] if isinstance(fact, Problem) else []


def gib(mib: int | None) -> str:
    """MiB as GiB for people."""
    return "?" if mib is None else f"{mib / 1024:,.1f} GiB"


def _or(value: object, unit: str = "") -> str:
    return "-" if value is None else f"{value}{unit}"


def _gpus(facts: Facts) -> list[str]:
    found = facts.gpus
    if not isinstance(found, Gpus):
        return missing("GPUs", found)
    lines = [f"GPUs: {len(found.gpus)}, driver {_or(found.driver)}"]
    rows = [["gpu", "name", "sm", "MiB used", "MiB total", "use", "°C", "W", "MIG", "ECC errors"]]
    for gpu in found.gpus:
        cut = "-" if gpu.mig is None else "on" if gpu.mig else "off"
        numbers = [_or(gpu.memory_used), _or(gpu.memory_total), _or(gpu.utilization, " %"), _or(gpu.temperature)]
        sm = _or(gpu.compute_capability and gpu.compute_capability.replace(".", ""))
        rows.append([str(gpu.index), gpu.name, sm, *numbers, _or(gpu.power), cut, _or(gpu.uncorrected)])
    lines += table(rows)
    for gpu in found.gpus:
        lines += [f"  FAULT of GPU {gpu.index}: {fault}" for fault in gpu.faults]
        if gpu.uncorrected:
            lines.append(
                f"  FAULT of GPU {gpu.index}: {gpu.uncorrected} uncorrected memory errors: numbers may be wrong"
            )
    lines += [f"  FAULT: {line}" for line in found.faults]
    if isinstance(facts.mig, Mig):
        lines += [f"  MIG {each.profile}: GPU {each.gpu}, device {each.device}" for each in facts.mig.instances]
        lines.append("  a server takes one MIG instance a rank at most: tensor parallelism wants whole GPUs")
    return lines + missing("MIG", facts.mig)


def _holders(facts: Facts) -> list[str]:
    found = facts.gpu_processes
    if not isinstance(found, GpuProcesses):
        return missing("GPU memory", found) if isinstance(found, Problem) else []
    if not found.processes:
        used = [gpu.memory_used for gpu in facts.gpus.gpus if gpu.memory_used] if isinstance(facts.gpus, Gpus) else []
        hidden = " that this login is shown, though some is in use" if sum(used) > 1024 * len(used) else ""
        return ["GPU memory: held by no process" + hidden]
    rows = [["gpu", "pid", "user", "MiB", "command"]]
    for each in found.processes:
        words = each.command or each.name or "not told (another container's?)"
        rows.append([_or(each.gpu), str(each.pid), _or(each.user), _or(each.memory), words[:100]])
    return ["GPU memory is held by", *table(rows)]


def _machine(facts: Facts) -> list[str]:
    lines: list[str] = []
    cpu, memory = facts.cpu, facts.memory
    if isinstance(cpu, Cpu):
        kinds = f", {', '.join(cpu.features)}" if cpu.features else ""
        nodes = f", {cpu.numa_nodes} NUMA nodes" if (cpu.numa_nodes or 1) > 1 else ""
        lines.append(f"CPU: {cpu.cpus} x {cpu.model or cpu.architecture or 'unknown'}{nodes}{kinds}")
    if isinstance(memory, Memory):
        limit = f"; limited to {gib(memory.limit)}, {gib(memory.limit_used)} of it used" if memory.limit else ""
        swap = f", swap {gib(memory.swap_total)}" if memory.swap_total else ""
        lines.append(f"memory: {gib(memory.available)} free of {gib(memory.total)}{swap}{limit}")
    return lines + missing("CPU", cpu) + missing("memory", memory)


def _disks(facts: Facts) -> list[str]:
    found = facts.disk
    if not isinstance(found, Disks):
        return missing("disk", found)
    rows = [["folder", "free", "of", "type", "mounted on"]]
    rows += [[each.path, gib(each.available), gib(each.size), _or(each.kind), each.mount] for each in found.disks]
    return ["disk", *table(rows), *(f"  {path}: there is no such folder" for path in found.missing)]


def _ports(facts: Facts) -> list[str]:
    found = facts.sockets
    if not isinstance(found, Sockets):
        return missing("ports", found)
    shown = [f"{each.port}{f' {each.program}' if each.program else ''}" for each in found.listeners]
    more = f", and {len(shown) - LISTED_PORTS} more (--json has all)" if len(shown) > LISTED_PORTS else ""
    return [f"ports: {', '.join(shown[:LISTED_PORTS]) or 'nobody listens'}{more}"]


def _interpreter(overview: Overview) -> list[str]:
    lines: list[str] = []
    found = overview.python
    why = f" ({overview.reason})" if overview.reason else ""
    if isinstance(found, Python):
        lines.append(f"python of {overview.interpreter}{why}: {found.executable} {found.version}")
        had = [f"{name} {version}" for name, version in found.packages.items() if version]
        lines.append(f"  {', '.join(had) or 'none of the packages that matter here'}")
    lines += [*missing(f"python of {overview.interpreter}{why}", found), _engine(overview.engine)]
    for engine, servers in overview.others:
        lines.append(f"also served here: {_engine(engine)}, by {engine.python}")
        lines += [f"  {seen.title}" for seen in servers]
    return lines


def _engine(engine: Fact) -> str:
    if isinstance(engine, Engine):
        return f"sglang {engine.version or 'of unknown version'} in {engine.package}"
    return "\n".join(missing("sglang", engine))


def _servers(overview: Overview) -> list[str]:
    found = overview.facts.servers
    if not isinstance(found, Servers):
        return missing("SGLang servers", found)
    hidden = ["  other logins' processes are hidden on this box"] if found.hidden else []
    if not overview.servers:
        return ["SGLang servers: none runs", *hidden]
    return [f"SGLang servers: {len(overview.servers)}", *hidden, *_each(overview.servers)]


def _each(servers: Iterable[Seen]) -> list[str]:
    lines: list[str] = []
    for seen in servers:
        process, how = seen.server.process, seen.server.launched
        port = {True: "listening", False: "not listening yet", None: "not known whether listening"}[seen.listening]
        age = f"{process.seconds / 3600:.1f} h" if process.seconds > 5400 else f"{process.seconds / 60:.0f} min"
        lines.append(f"  pid {process.pid} of {process.user}, port {how.port} ({port}), tp {how.tp}, up {age}")
        if seen.run is not None:
            state = "answers" if seen.run.answers else "does not answer"
            yours = " (you)" if seen.whose and seen.whose.kind == "you" else ""
            lines.append(f"    run {seen.run.id} (profile {seen.run.profile}) of {seen.run.owner}{yours}, {state}")
        elif seen.server.run is not None:
            lines.append(f"    marked as run {seen.server.run}, which is not this login's, or not its server")
        else:
            lines.append("    not started by the workbook")
        if seen.whose and seen.whose.kind == "elsewhere":
            lines.append(f"    {seen.whose.words}")
        lines.append(f"    {_engine(seen.engine)}")
        lines.append(f"    {shlex.join(process.argv)}")
    return lines


def _comparison(overview: Overview) -> list[str]:
    rows = [["laptop and box", "laptop", "box", ""]]
    for row in overview.rows:
        mark = {"match": "match", "differs": "differs", "critical": "CRITICAL"}[row.state]
        same = row.laptop is not None and row.laptop == row.box
        rows.append([row.name, _short(row.laptop), "same" if same else _short(row.box), mark])
    lines = table(rows, indent="")
    shown = lines[:1]
    for row, line in zip(overview.rows, lines[1:], strict=True):
        shown.append(line)
        if row.state != "match":
            shown += [
                f"  {side}: {value}" for side, value in (("laptop", row.laptop), ("box", row.box)) if _long(value)
            ]
            shown.append(f"  {row.why}")
    return shown


def _short(value: str | None) -> str:
    return f"{value[: CELL - 3]}..." if value is not None and _long(value) else _or(value)


def _long(value: str | None) -> bool:
    return value is not None and len(value) > CELL
