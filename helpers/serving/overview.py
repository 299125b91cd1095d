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
from helpers.owner import whoami
from helpers.serving.records import RUNS
from helpers.serving.registry import find_runs
from helpers.serving.whose import Whose, whose
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
        whose: as far as it is known.
    """

    server: Server
    listening: bool | None
    engine: Engine | Absent | Problem
    python: Python | Absent | Problem
    run: KnownRun | None = None
    whose: Whose | None = None

    @property
    def title(self) -> str:
        """The server in a few words: its pid, and whose run it is."""
        words = self.whose.words if self.whose else "whose is not known"
        return f"server {self.server.process.pid} ({f'run {self.run.id}, ' if self.run else ''}{words})"


class Overview(Fact):
    """What `overview` found.

    Attributes:
        interpreter: whose packages are compared: ``server <pid>``, or the configured interpreter.
        reason: why that one: whose server it is, or that none of this box runs; empty where it was asked for.
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
    reason: str = ""

    @property
    def others(self) -> tuple[tuple[Engine, tuple[Seen, ...]], ...]:
        """Checkouts that servers of this box import beside the one above, each with its servers."""
        found: dict[tuple[str, str], list[Seen]] = {}
        engines: dict[tuple[str, str], Engine] = {}
        shown = (self.engine.package, self.engine.python) if isinstance(self.engine, Engine) else None
        for seen in self.servers:
            engine = seen.engine
            if isinstance(engine, Engine) and seen.whose and seen.whose.here:
                key = (engine.package, engine.python)
                if key != shown:
                    engines[key] = engine
                    found.setdefault(key, []).append(seen)
        return tuple((engines[key], tuple(servers)) for key, servers in found.items())

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
        compared = {
            "interpreter": self.interpreter,
            "reason": self.reason,
            "good": self.good,
            "rows": said["rows"],
        }
        return {"schema": SCHEMA, **facts, "engine": said["engine"], "laptop": said["laptop"], "comparison": compared}


def overview(
    box: Box, *, interpreter: str | None = None, folders: Sequence[str] = (), progress: bool = True
) -> Overview:
    """Look at a box.

    Args:
        interpreter: whose packages to compare; by default those of your own newest server here, else of the newest
            that somebody else started on this box, else of ``python3``: never another box's or another login's.
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
        return _overview(facts, answers, interpreter, runs, problem, here.result(), home=box.home)


def _overview(
    facts: Facts,
    answers: dict[str, Answer],
    interpreter: str | None,
    runs: Sequence[Run],
    problem: Problem | None,
    here: Python,
    *,
    home: str,
) -> Overview:
    seen = tuple(_seen(server, facts, answers, runs, home) for server in _servers(facts))
    name, reason = interpreter or "python3", ""
    engine: Engine | Absent | Problem = read(served.parse, answers[served.FACT])
    there = facts.python
    if interpreter is None:
        meant = about(seen)
        reason = "the box's own: no server of this box runs" if not meant else _title(meant)
        if meant is not None:
            name, engine, there = f"server {meant.server.process.pid}", meant.engine, meant.python
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
        reason=reason,
    )


def about(servers: Sequence[Seen]) -> Seen | None:
    """The server whose interpreter a look is about: your newest here, else anybody's newest here; None for none."""
    here = [seen for seen in servers if seen.whose and seen.whose.here and isinstance(seen.python, Python)]
    here.sort(key=lambda seen: seen.server.process.start_time)
    own = [seen for seen in here if seen.whose and seen.whose.kind == "you"]
    return next(iter([*reversed(own), *reversed(here)]), None)


def _title(seen: Seen) -> str:
    return seen.title.partition("(")[2].removesuffix(")")


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


def _seen(server: Server, facts: Facts, answers: dict[str, Answer], runs: Sequence[Run], home: str) -> Seen:
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
    if isinstance(facts.sockets, Sockets) and server.process.same_root is not False and not server.process.container:
        listening = bool(facts.sockets.on(server.launched.port))
    boot = facts.servers.boot_id if isinstance(facts.servers, Servers) else ""
    run = _known(server, boot, runs)
    whom = whose(server, run.owner if run else None, me=whoami(), home=home)
    return Seen(server=server, listening=listening, engine=engine, python=packages, run=run, whose=whom)


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
