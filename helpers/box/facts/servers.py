"""SGLang servers that run on the box, ours or not, with their arguments: by the command lines in /proc."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, loads, unreadable
from helpers.box.facts.asking import BARE, source
from helpers.box.facts.launched import Launched, launched
from helpers.box.result import masked_words

FACT = "servers"


class Process(Fact):
    """A process as /proc shows it (remote/engines.py); None is what this login may not see.

    Attributes:
        start_time: clock ticks since boot. seconds: since it started.
        mine: it is this login's. same_root: it sees the same files (a container's process does not). container: the one
            that it runs in, where that shows and the box itself is not in it.
        interpreter: the program as it was called. env: what decides which modules it imports.
        nvidia: it has a GPU open.
    """

    pid: int
    ppid: int
    start_time: int
    seconds: float
    user: str
    mine: bool
    name: str
    argv: tuple[str, ...]
    exe: str | None
    cwd: str | None
    interpreter: str | None
    env: dict[str, str] | None
    same_root: bool | None
    container: str | None = None
    nvidia: bool | None


class Server(Fact):
    """A server's main process.

    Attributes:
        process: it; secrets in its arguments are masked. launched: what they say.
        workers: pids of its schedulers and other children.
        run: the workbook's run that it belongs to by the mark in its environment.
    """

    process: Process
    launched: Launched
    workers: tuple[int, ...] = ()
    run: str | None = None


class Servers(Fact):
    """All that can be seen.

    Attributes:
        boot_id: which boot the start times count from.
        hidden: this login sees only its own processes.
        processes: those that were asked for by pid.
    """

    boot_id: str
    hidden: bool
    servers: tuple[Server, ...] = ()
    processes: tuple[Process, ...] = ()


def question(python: str = "python3", pids: Sequence[int] = ()) -> Question:
    """The question; ``pids`` are processes to describe whatever they are."""
    return Question(FACT, ((python, *BARE, "-c", source("engines"), *map(str, pids)),))


def parse(answer: Answer, pids: Sequence[int] = ()) -> Servers | Absent:
    """Read the processes, and tell servers from their children, from shells and from the like.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    if answer.exit_status:
        raise failed(FACT, answer, "Python 3.7 or later, and Linux's /proc")
    head: dict[str, object] | None = None
    found: list[Process] = []
    for number, line in enumerate(answer.lines, 1):
        try:
            said = loads(line)
            if head is None:
                head = {"boot_id": said["boot_id"], "hidden": said["hidden"]}
            else:
                found.append(Process.model_validate(said))
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            expected = "a JSON object about a process" if head else "a JSON object about the box"
            raise unreadable(FACT, answer, number, expected) from error
    if head is None:
        raise unreadable(FACT, answer, 1, "a JSON object about the box")
    asked = tuple(process for process in found if process.pid in pids)
    return Servers.model_validate({**head, "servers": _servers(found), "processes": asked})


def _servers(found: list[Process]) -> tuple[Server, ...]:
    by_pid = {process.pid: process for process in found}
    servers = []
    for process in found:
        how = launched(process.argv)
        parent = by_pid.get(process.ppid)
        # A child has its parent's command line until it takes a name of its own.
        if how is None or (parent is not None and parent.argv == process.argv):
            continue
        servers.append(
            Server(
                process=process.model_copy(update={"argv": masked_words(process.argv)}),
                launched=how,
                workers=tuple(each.pid for each in found if _descends(each, process.pid, by_pid)),
                run=(process.env or {}).get("WORKBOOK_RUN"),
            )
        )
    return tuple(servers)


def _descends(process: Process, ancestor: int, by_pid: dict[int, Process]) -> bool:
    seen: set[int] = set()
    current: Process | None = process
    while current is not None and current.pid not in seen:
        seen.add(current.pid)
        if current.ppid == ancestor:
            return True
        current = by_pid.get(current.ppid)
    return False
