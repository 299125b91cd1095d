"""A run: one start of a server on a box, found again by any later process through its record on the box."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from helpers.errors import RemoteFailed, WorkbookError, WrongResult
from helpers.owner import whoami
from helpers.progress import Progress
from helpers.screen import as_typed
from helpers.serving.crash import LAST, recognise
from helpers.serving.endings import Ending, ending
from helpers.serving.profile import Profile
from helpers.serving.records import RUNS, RunRecord, State, StopReport
from helpers.serving.remote import ask, watch
from helpers.serving.stages import STAGES, Stage, percent_of, stage_of
from helpers.source.whose import options

if TYPE_CHECKING:
    from helpers.box import Box, Tunnel


class Run:
    """A server that was started on a box. Made by `launch`, `find_runs` or `get_run`.

    Attributes:
        box: where it is. record: run.json as it was read last.
        state: alive, stopped (by somebody), dead (by itself), stranger (dead, and its pid is another process now) or
            elsewhere (on another machine with this home), when it was looked at last.
        ending: how it ended, None while it lives.
    """

    def __init__(
        self,
        box: Box,
        record: RunRecord,
        state: State = "alive",
        *,
        answers: bool = False,
        ending: Ending | None = None,
    ) -> None:
        self.box = box
        self.record = record
        self.state: State = state
        self.answers = answers
        self.ending = ending

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def profile(self) -> Profile:
        return self.record.profile

    @property
    def port(self) -> int:
        return self.record.port

    @property
    def pid(self) -> int:
        return self.record.pid

    @property
    def pgid(self) -> int:
        return self.record.pgid

    @property
    def start_time(self) -> int:
        return self.record.start_time

    @property
    def argv(self) -> tuple[str, ...]:
        return self.record.argv

    @property
    def shown_state(self) -> str:
        """The state as lists show it, with the machine where that is another one."""
        if self.answers:
            return "answers"
        if self.state == "elsewhere" and self.record.node is not None:
            return f"elsewhere ({self.record.node.name})"
        return "dead" if self.state == "stranger" else self.state

    @property
    def folder(self) -> str:
        """The run's folder on the box."""
        return self.box.path(f"{RUNS}/{self.id}")

    @property
    def url(self) -> str:
        """Where it listens, as seen from the box; `tunnel` leads there from here."""
        return f"http://{_reachable(self.record.host)}:{self.port}"

    @property
    def whose(self) -> str:
        """The options of `workbook patch` that mean the SGLang of this run."""
        return options(self._python, self.record.env)

    def tunnel(self) -> Tunnel:
        """A local port that leads to the server. A context manager; its ``url`` is the server's here."""
        return self.box.tunnel(self.port, _reachable(self.record.host))

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The lines of the server's log, from the first or the last ``tail``; with ``follow`` until the server ends.

        A lost connection is made again, and no line is lost or told twice.
        """
        for event in watch(self.box, self.id, follow=follow, tail=tail, python=self._python):
            if event["event"] == "line":
                yield event["text"]

    def wait_ready(
        self,
        timeout: float | None = None,
        *,
        progress: bool = True,
        on_interrupt: Literal["stop", "leave"] = "stop",
        on_timeout: Literal["stop", "leave"] = "leave",
        watcher: Callable[[Stage, str, str | None], None] | None = None,
    ) -> Run:
        """Wait until the server answers, telling its stages; returns itself.

        Args:
            timeout: seconds from now; by default the profile's ``start_timeout``.
            progress: show stages and seconds on standard error.
            on_interrupt: what Ctrl-C does with the server; ``leave`` lets it load on.
            on_timeout: what is done with a server that is late; ``leave`` lets it load on, to be waited for again.
            watcher: is told the stage, its detail, and the line of the log that came, every two seconds at least; what
                it raises ends the waiting, a KeyboardInterrupt as Ctrl-C does.

        Raises:
            RemoteFailed: the cause of its death as a code, with the log lines that tell it, as soon as it is dead;
                WB-SERVE-TIMEOUT, which says whether the server loads on.
        """
        timeout = self.profile.start_timeout if timeout is None else timeout
        shown = Progress(f"{self.id} on {self.box.name}", enabled=progress)
        try:
            self._await(timeout, shown, watcher, on_timeout == "stop")
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            shown.done("interrupted" if interrupted else "failed")
            if interrupted and on_interrupt == "stop" and self.record.owner == whoami():
                self.stop()
            raise
        shown.done(f"ready, port {self.port}")
        self.state, self.answers = "alive", True
        return self

    def stop(self, *, force: bool = False, orphans: bool = False, grace: float = 20) -> StopReport:
        """End the server's process group and session, and make sure that nothing of it is left.

        Args:
            force: also a run that somebody else started.
            orphans: also its processes that left group and session, which else are only reported.
            grace: seconds between TERM and KILL.

        Raises:
            RemoteFailed: WB-SERVE-OTHER-OWNER, WB-SERVE-ELSEWHERE, WB-SERVE-STRANGER; nothing was signalled.
            WrongResult: WB-SERVE-LEFTOVERS, with what is left: processes, an open port, held GPU memory.
        """
        request = {"run": self.id, "owner": whoami(), "force": force, "orphans": orphans, "grace": grace}
        report = StopReport.model_validate(ask(self.box, "stop", request, python=self._python))
        self.record = self.record.model_copy(update={"stopped": report.stopped})
        self.state, self.answers = "stopped" if report.stopped else "dead", False
        if report.stopped:
            self.ending = ending(self.record, "stopped", None)
        if not report.clean:
            raise _leftovers(self, report)
        return report

    def _await(
        self,
        timeout: float,
        shown: Progress,
        watcher: Callable[[Stage, str, str | None], None] | None,
        stop: bool,
    ) -> None:
        stage: Stage = "starting"
        detail = ""
        lines: deque[str] = deque(maxlen=LAST)
        shown.update(stage)
        for event in watch(self.box, self.id, health=True, python=self._python):
            kind = event["event"]
            if kind == "ready":
                return
            if kind == "dead":
                raise self._died(stage, list(lines))
            if kind == "foreign":
                raise self._robbed(event["holder"])
            if kind == "line":
                lines.append(event["text"])
                # Ranks and the drafter come through the same stages later: a stage never goes back.
                stage = max(stage, stage_of(event["text"]) or stage, key=STAGES.index)
                percent = percent_of(event["text"])
                detail = "" if percent is None else f"{percent}%"
            told = "connection lost, trying again" if kind == "lost" else detail
            shown.update(stage, told)
            if watcher is not None:
                watcher(stage, told, event["text"] if kind == "line" else None)
            if shown.seconds() > timeout:
                raise self._late(stage, timeout, list(lines), stop=stop)

    def _died(self, stage: Stage, lines: list[str]) -> RemoteFailed:
        crash = recognise(lines)
        when = "as it began to answer" if stage == "ready" else f"while loading ({stage})"
        error = RemoteFailed(
            crash.code,
            f"{self.id} died on {self.box.name} {when}: {crash.summary}",
            expected="a server that answers /health",
            next=crash.hint(self.box.name, self.id, self.whose),
            lines=list(crash.lines),
        )
        self.state, self.ending = "dead", Ending(crash.summary, crash.code)
        self._clear(error)  # children that outlived it hold memory
        return error

    def _robbed(self, holder: dict[str, object] | None) -> RemoteFailed:
        who = f"pid {holder['pid']}: {holder['command']}" if holder else "a process that this login may not see"
        error = RemoteFailed(
            "WB-SERVE-PORT-TAKEN",
            f"somebody else took port {self.port} of {self.box.name} while {self.id} loaded: {who}",
            expected="a port that stays free until the server has loaded",
            next=f"workbook serve {self.box.name} {self.profile.name} (without a port in the profile)",
        )
        self._clear(error)
        return error

    def _clear(self, error: RemoteFailed) -> None:
        """Stop what is left of an own run that failed, and say it where that does not work."""
        if self.record.owner == whoami():
            try:
                self.stop()
            except WorkbookError as left:
                error.lines.append(str(left))

    def _late(self, stage: Stage, timeout: float, lines: list[str], *, stop: bool) -> RemoteFailed:
        """The error of a server that is late, once what it says has been done."""
        box, lines = as_typed(self.box.name), lines[-10:]
        log = f"workbook logs {box} {self.id}"
        then, what = "it loads on", f"workbook wait {box} {self.id}; {log} --follow shows whether it moves"
        if stop:
            then, what = (
                "it was stopped",
                f"start_timeout = {2 * timeout:g} in its profile, if it was on its way: {log}",
            )
            try:
                self.stop()
            except WorkbookError as left:
                then, lines = "stopping it failed", [*lines, str(left)]
        return RemoteFailed(
            "WB-SERVE-TIMEOUT",
            f"{self.id} on {self.box.name} is not ready after {timeout:g} s ({stage}); {then}",
            expected=f"a server that answers within {timeout:g} s",
            next=what,
            lines=lines,
        )

    @property
    def _python(self) -> str:
        return self.record.engine.python

    def __repr__(self) -> str:
        return f"<Run {self.id} on {self.box.name}: {self.state}, port {self.port}, pid {self.pid}>"


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host


def _leftovers(run: Run, report: StopReport) -> WrongResult:
    lines = [f"group: pid {p.pid} {p.command}" for p in report.left]
    lines += [f"orphan: pid {p.pid} {p.command}" for p in report.orphans]
    if not report.port_closed and not report.port_holder:
        lines.append(f"port {run.port} still answers, by a process that this login may not see")
    if report.gpu and report.gpu["holders_left"]:
        lines.append(f"GPU memory is still held by pids {report.gpu['holders_left']}")
    return WrongResult(
        "WB-SERVE-LEFTOVERS",
        f"run {run.id} was stopped on {run.box.name}, but something of it is left",
        expected="no process, a closed port, GPU memory back",
        next=f"workbook stop {run.box.name} {run.id} --orphans, or look: workbook facts {run.box.name}",
        lines=lines,
    )
