"""A box and its servers in one look: facts, which SGLang each server really imports, whose run it is, and how the
laptop's packages compare.

>>> from helpers.serving.overview import overview          # doctest: +SKIP
>>> [row for row in overview(box).rows if row.state == "critical"]      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from helpers.box.facts import comparison, python
from helpers.box.facts.answer import Absent, Answer, Fact, Question
from helpers.box.facts.comparison import Row
from helpers.box.facts.gather import Facts, Problem, gather, read
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.laptop import laptop
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Server, Servers
from helpers.box.facts.sockets import Sockets
from helpers.errors import WorkbookError
from helpers.serving.records import RUNS
from helpers.serving.registry import find_runs
from helpers.source import served
from helpers.source.served import Engine

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving.run import Run

SCHEMA = "workbook.facts/1"
REGISTRY = "registry"  # the question whether this login has one


class KnownRun(Fact):
    """The workbook's run that a server is. ``answers``: its /health does."""

    id: str
    profile: str
    owner: str
    answers: bool


class Seen(Fact):
    """A running server.

    Attributes:
        listening: somebody listens on its port; None where that is not known.
        engine, python: what its own interpreter imports and has.
        run: None for a server that the workbook did not start.
    """

    server: Server
    listening: bool | None
    engine: Engine | Absent | Problem
    python: Python | Absent | Problem
    run: KnownRun | None = None


class Overview(Fact):
    """What `overview` found.

    Attributes:
        interpreter: whose packages are compared: ``server <pid>``, or the configured interpreter.
        engine, python: of that interpreter.
        rows: laptop against box.
    """

    facts: Facts
    servers: tuple[Seen, ...]
    interpreter: str
    engine: Engine | Absent | Problem
    python: Python | Absent | Problem
    laptop: Python
    rows: tuple[Row, ...]
    registry: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that could not be read."""
        own = (self.registry, self.engine, *(each for seen in self.servers for each in (seen.engine, seen.python)))
        found = [*self.facts.problems, *(each for each in own if isinstance(each, Problem))]
        return tuple({repr(each): each for each in found}.values())

    def __str__(self) -> str:
        """The page that `workbook facts` prints."""
        from helpers.serving.overview_text import describe

        return describe(self)

    @property
    def good(self) -> bool:
        """All was read, no GPU is at fault, and nothing makes a comparison of tensors misleading."""
        faulty = isinstance(self.facts.gpus, Gpus) and not self.facts.gpus.good
        return not self.problems and not faulty and all(row.state != "critical" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The object of ``workbook facts --json``."""
        said = self.model_dump(mode="json")
        facts = said["facts"]
        if isinstance(self.facts.servers, Servers):
            facts["servers"] = said["servers"]
            facts["processes_hidden"] = self.facts.servers.hidden
        compared = {"interpreter": self.interpreter, "good": self.good, "rows": said["rows"]}
        return {"schema": SCHEMA, **facts, "engine": said["engine"], "laptop": said["laptop"], "comparison": compared}


def overview(
    box: Box, *, interpreter: str | None = None, folders: Sequence[str] = (), progress: bool = True
) -> Overview:
    """Look at a box.

    Args:
        interpreter: whose packages to compare; by default those of the newest server, else of ``python3``.
        folders: further folders whose disks are looked at.
        progress: after two seconds say on stderr what is awaited.

    Raises:
        BoxUnreachable, RemoteFailed: the box cannot be asked at all.
    """
    configured = interpreter or "python3"
    with ThreadPoolExecutor(2) as pool:
        here = pool.submit(laptop)
        registry: list[Future[list[Run]]] = []

        def then(facts: Facts, answers: Mapping[str, Answer]) -> list[Question]:
            # A server with our mark was started through a registry; if this login has one, it says whose run that is.
            if answers[REGISTRY].exit_status == 0 and any(server.run for server in _servers(facts)):
                registry.append(pool.submit(find_runs, box))
            return _questions(facts)

        facts, answers = gather(
            box,
            interpreter=configured,
            folders=folders,
            first=[served.question(configured), Question(REGISTRY, (("ls", "-d", box.path(RUNS)),))],
            then=then,
            progress=progress,
        )
        runs, problem = _runs(registry)
        return _overview(facts, answers, interpreter, runs, problem, here.result())


def _overview(
    facts: Facts,
    answers: dict[str, Answer],
    interpreter: str | None,
    runs: Sequence[Run],
    problem: Problem | None,
    here: Python,
) -> Overview:
    seen = tuple(_seen(server, facts, answers, runs) for server in _servers(facts))
    name = interpreter or "python3"
    engine: Engine | Absent | Problem = read(served.parse, answers[served.FACT])
    there = facts.python
    if interpreter is None:
        for each in sorted(seen, key=lambda one: one.server.process.start_time):
            if isinstance(each.python, Python):
                name, engine, there = f"server {each.server.process.pid}", each.engine, each.python
    rows = comparison.compare(
        here,
        there if isinstance(there, Python) else None,
        gpus=facts.gpus if isinstance(facts.gpus, Gpus) else None,
        engine=engine.version or "unknown" if isinstance(engine, Engine) else None,
    )
    return Overview(
        facts=facts,
        servers=seen,
        interpreter=name,
        engine=engine,
        python=there,
        laptop=here,
        rows=rows,
        registry=problem,
    )


def _servers(facts: Facts) -> tuple[Server, ...]:
    return facts.servers.servers if isinstance(facts.servers, Servers) else ()


def _questions(facts: Facts) -> list[Question]:
    """What every server's own interpreter is asked."""
    questions: list[Question] = []
    for server in _servers(facts):
        process = server.process
        if served.unasked(server) is not None or process.interpreter is None:
            continue
        flags, env, cwd = server.launched.flags, served.surroundings(server), process.cwd
        questions.append(
            served.question(
                process.interpreter,
                name=f"{served.FACT} {process.pid}",
                flags=flags,
                first=server.launched.first(cwd),
                env=env,
                cwd=cwd,
            )
        )
        questions.append(
            python.question(process.interpreter, name=f"{python.FACT} {process.pid}", flags=flags, env=env, cwd=cwd)
        )
    return questions


def _seen(server: Server, facts: Facts, answers: dict[str, Answer], runs: Sequence[Run]) -> Seen:
    pid = server.process.pid
    engine: Engine | Absent | Problem
    packages: Python | Absent | Problem
    why = served.unasked(server)
    if why is not None:
        engine = packages = why
    else:
        engine = read(served.parse, answers[f"{served.FACT} {pid}"])
        packages = read(python.parse, answers[f"{python.FACT} {pid}"])
    listening = None
    if isinstance(facts.sockets, Sockets) and server.process.same_root is not False:
        listening = bool(facts.sockets.on(server.launched.port))
    boot = facts.servers.boot_id if isinstance(facts.servers, Servers) else ""
    return Seen(server=server, listening=listening, engine=engine, python=packages, run=_known(server, boot, runs))


def _known(server: Server, boot: str, runs: Sequence[Run]) -> KnownRun | None:
    """The run whose server this is: by pid, start time and boot, since a pid alone names nobody."""
    for run in runs:
        record = run.record
        same = (record.pid, record.start_time, record.boot_id)
        if same == (server.process.pid, server.process.start_time, boot):
            return KnownRun(id=run.id, profile=run.profile.name, owner=record.owner, answers=run.answers)
    return None


def _runs(registry: Sequence[Future[list[Run]]]) -> tuple[list[Run], Problem | None]:
    try:
        return [run for future in registry for run in future.result()], None
    except WorkbookError as error:
        return [], Problem(error=error.to_json()["error"])
