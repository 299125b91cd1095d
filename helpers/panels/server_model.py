"""What the server panel shows and does, without a widget. Its calls talk to the box, and may take long."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.box.facts.answer import Absent, Fact
from helpers.box.facts.gather import Facts, Problem
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.memory import Memory
from helpers.box.facts.servers import Servers
from helpers.panels.static import Static, Table
from helpers.serving import Plan, Profile, Run, StopReport, find_runs, launch
from helpers.serving import plan as plan_start
from helpers.serving.records import RUNS
from helpers.serving.stages import STAGES, Stage

if TYPE_CHECKING:
    from helpers.box import Box

LOG_LINES, SHOWN_LINES = 400, 14
#: Runs that have ended and are listed all the same, so that their logs can be read.
ENDED = 3
Watcher = Callable[[Stage, str, str | None], None]


class ServerModel:
    """State of the panel.

    Attributes:
        chosen: the profile's name. capture: serve it with the capture hook.
        facts, runs: as they were looked up last. command: the exact command line that was planned or started last.
        stage: of the server that is being started. lines: of the log that was followed or read last, of ``log_of``.
    """

    def __init__(self, box: Box, profiles: Mapping[str, Profile]) -> None:
        if not profiles:
            raise ValueError("a server panel needs at least one profile")
        self.box, self.profiles = box, dict(profiles)
        self.chosen = next(iter(profiles))
        self.capture = False
        self.facts: Facts | None = None
        self.runs: list[Run] = []
        self.command = ""
        self.stage: Stage | None = None
        self.stage_detail = ""
        self.log_of = ""
        self.lines: deque[str] = deque(maxlen=LOG_LINES)

    @property
    def profile(self) -> Profile:
        """What Start would serve."""
        chosen = self.profiles[self.chosen]
        return chosen.model_copy(update={"capture": True}) if self.capture and chosen.capture is False else chosen

    def look(self) -> tuple[Facts, list[Run]]:
        """GPUs, memory and servers, and this login's runs."""
        facts = self.box.facts(progress=False)
        registry = self.box.run(["ls", "-d", self.box.path(RUNS)], check=False, idempotent=True)
        return facts, find_runs(self.box, endings=True) if registry.ok else []

    def take(self, looked: tuple[Facts, list[Run]]) -> None:
        self.facts, self.runs = looked

    def plan(self) -> str:
        """The exact command line of a start, which is not done."""
        self.command = plan_start(self.box, self.profile).text
        return self.command

    def start(self, watcher: Watcher) -> Run:
        """Start the profile and wait until it answers.

        Args:
            watcher: is told stages and log lines; a KeyboardInterrupt that it raises stops the server.

        Raises:
            As `launch` and `Run.wait_ready`: the cause of a crash as a code, with the lines of the log that tell it.
        """

        def planned(plan: Plan) -> None:
            self.command, self.log_of = plan.text, plan.id
            self.lines.clear()
            told("starting", "", None)

        def told(stage: Stage, detail: str, line: str | None) -> None:
            self.stage, self.stage_detail = stage, detail
            if line is not None:
                self.lines.append(line)
            watcher(stage, detail, line)

        try:
            run = launch(self.box, self.profile, progress=False, planned_as=planned)
            run.wait_ready(progress=False, watcher=told)
        except BaseException:
            self.stage = None
            raise
        self.stage, self.stage_detail = "ready", ""
        return run

    def stop(self, run_id: str) -> StopReport:
        """Stop one of `runs`.

        Raises:
            As `Run.stop`.
        """
        report = self.run(run_id).stop()
        if self.log_of == run_id:
            self.stage = None
        return report

    def read_log(self, run_id: str) -> None:
        """The last lines of a run's log."""
        lines = list(self.run(run_id).logs(tail=LOG_LINES))
        self.log_of = run_id
        self.lines.clear()
        self.lines.extend(lines)

    def run(self, run_id: str) -> Run:
        return next(run for run in self.runs if run.id == run_id)

    def listed(self) -> list[Run]:
        """Living runs, and the last few that have ended."""
        ended = [run for run in self.runs if run.state != "alive"][-ENDED:]
        return [*(run for run in self.runs if run.state == "alive"), *ended]

    def profile_words(self) -> str:
        """What the chosen profile is, and what it needs."""
        profile = self.profile
        words = [f"{profile.note}." if profile.note else "", f"{profile.engine}, tp {profile.tp}, {profile.dtype}"]
        if profile.aux_layer_ids is not None:
            words.append(f"layer ids {', '.join(map(str, profile.aux_layer_ids))}")
        words.append("with the capture hook" if profile.capture is not False else "no capture hook")
        if profile.patches:
            words.append(f"needs {', '.join(profile.patches)} (see the patches panel)")
        return " ".join([words[0], "; ".join(words[1:]) + "."]).strip()

    def gpu_rows(self) -> list[dict[str, str]]:
        return gpu_rows(self.facts.gpus) if self.facts is not None else []

    def box_words(self) -> str:
        """Where this is, its memory, and what it has no facts of."""
        where = f"{self.box.name}: {self.box.user}@{self.box.host}"
        if self.facts is None:
            return f"{where}, not looked at yet"
        words = [f"{where}, {self.facts.taken}", memory_words(self.facts.memory)]
        if not isinstance(self.facts.gpus, Gpus):
            words.append(f"GPUs: {missing(self.facts.gpus)}")
        return "; ".join(words)

    def server_rows(self) -> list[dict[str, str]]:
        """Runs, and SGLang servers that were not started from here."""
        rows = [
            {
                "run": run.id,
                "state": run.shown_state,
                "port": str(run.port),
                "pid": str(run.pid),
                "started": run.record.started,
                "owner": run.record.owner,
                "ended": str(run.ending or ""),
            }
            for run in self.listed()
        ]
        known = {run.pid for run in self.runs if run.state == "alive"}
        found = self.facts.servers if self.facts is not None else None
        for server in found.servers if isinstance(found, Servers) else ():
            process = server.process
            if process.pid not in known:
                rows.append(
                    {
                        "run": f"(marked as run {server.run})" if server.run else "(not started by the workbook)",
                        "state": "runs",
                        "port": str(server.launched.port),
                        "pid": str(process.pid),
                        "started": f"{process.seconds / 60:.0f} min ago",
                        "owner": process.user,
                        "ended": "",
                    }
                )
        return rows

    def stages(self) -> list[tuple[str, str]]:
        """Each stage with what has become of it: passed (done, or skipped), now (and how far), or to come."""
        at = STAGES.index(self.stage) if self.stage else -1
        said = []
        for number, stage in enumerate(STAGES):
            if number < at or self.stage == "ready":
                said.append((str(stage), "answers" if stage == "ready" else "passed"))
            else:
                said.append((str(stage), f"now {self.stage_detail}".rstrip() if number == at else "to come"))
        return said

    def call(self) -> str:
        """Start, wait, stop: the same as plain calls."""
        profile = f"profiles[{self.chosen!r}]"
        if self.profile.capture is True and self.profiles[self.chosen].capture is False:
            profile += '.model_copy(update={"capture": True})'
        return "\n".join(
            [
                "from helpers.serving import find_runs, launch, plan",
                f"print(plan(box, {profile}).text)  # the exact command; nothing is started",
                f"run = launch(box, {profile}).wait_ready()",
                "run.stop()",
            ]
        )

    def static(self) -> Static:
        """The box, its servers, the last command and log, as they are now."""
        tables = [Table("GPUs", self.gpu_rows())] if self.gpu_rows() else []
        tables.append(Table("Servers", self.server_rows()))
        blocks = [("The command, as it runs on the box", self.command)] if self.command else []
        if self.lines:
            blocks.append((f"Last lines of the log of {self.log_of}", "\n".join(list(self.lines)[-SHOWN_LINES:])))
        return Static(f"Server on {self.box.name}", [self.box_words(), self.profile_words()], tables, blocks)


def gpu_rows(found: Fact | None) -> list[dict[str, str]]:
    """A row a GPU; a fault is said in words."""
    if not isinstance(found, Gpus):
        return []
    return [
        {
            "GPU": str(gpu.index),
            "name": gpu.name,
            "memory used": share(gpu.memory_used, gpu.memory_total),
            "busy": "?" if gpu.utilization is None else f"{gpu.utilization} %",
            "faults": "; ".join([*gpu.faults, *([f"{gpu.uncorrected} ECC errors"] if gpu.uncorrected else [])])
            or "none",
        }
        for gpu in found.gpus
    ]


def memory_words(found: Fact | None) -> str:
    """The box's memory in a sentence."""
    if not isinstance(found, Memory):
        return f"memory: {missing(found)}"
    words = f"memory: {gib(found.available)} free of {gib(found.total)}"
    return words + (f", limited to {gib(found.limit)}" if found.limit else "")


def missing(found: Fact | None) -> str:
    """Why there is no such fact."""
    if isinstance(found, Absent):
        return found.absent
    return f"{found.error['code']}: {found.error['message']}" if isinstance(found, Problem) else "not known"


def share(used: int | None, total: int | None) -> str:
    percent = f" ({used / total:.0%})" if used is not None and total else ""
    return f"{gib(used)} of {gib(total)}{percent}"


def gib(mib: int | None) -> str:
    return "?" if mib is None else f"{mib / 1024:,.1f} GiB"


def run_labels(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """What a list shows for each run, and its id."""
    if not runs:
        return [("none yet", "")]
    return [(f"{run.id}, {run.shown_state}, port {run.port}", run.id) for run in runs]
