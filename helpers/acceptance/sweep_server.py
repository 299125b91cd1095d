"""A sweep's servers: one at a time, written down before it is started, found again or ended after a kill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from helpers.acceptance.points import Point
from helpers.acceptance.sweep_state import State
from helpers.errors import RemoteFailed, UsageError
from helpers.progress import Progress, show_command
from helpers.serving.argv import expand, server_environment
from helpers.serving.launch import ATTEMPTS, plan, start, was_quicker
from helpers.serving.profile import Profile
from helpers.serving.registry import get_run
from helpers.serving.run import Run
from helpers.source import patches

if TYPE_CHECKING:
    from helpers.box import Box


class Servers:
    """Starts and stops what a sweep needs on a box, and keeps the journal of it.

    Attributes:
        left: living servers of an earlier process of this sweep, by server; `adopt` fills it.
    """

    def __init__(self, box: Box, state: State, profiles: Mapping[str, Profile], *, progress: bool) -> None:
        self.box, self.state, self.profiles, self.progress = box, state, profiles, progress
        self.left: dict[str, Run] = {}

    def adopt(self, wanted: Sequence[str]) -> None:
        """Find what a killed process left: keep the server that is wanted first, and stop every other one."""
        for run_id, server in self.state.standing.items():
            run = self._find(run_id)
            if run is None or run.state != "alive":
                self._ended(run_id, run)
            elif wanted and server == wanted[0] and server not in self.left:
                self.left[server] = run
                self._say(f"{run_id} was left by an earlier call, and serves on")
            else:
                self._stop(run)

    @contextmanager
    def serve(self, points: Sequence[Point], timeout: float | None) -> Iterator[Run]:
        """A ready server for these points, all of one server; stopped at the end.

        Raises:
            As `plan`, `start` and `Run.wait_ready`.
        """
        point = points[0]
        run = self.left.pop(point.server, None)
        if run is None:
            self.patch(point.profile.patches, point.server)
            run = self._start(point)
        try:
            run.wait_ready(timeout, progress=self.progress, on_timeout="stop")
            yield run
        finally:
            self._stop(run)

    def patch(self, wanted: Sequence[str], server: str) -> None:
        """Put the patches in that are wanted, and take out those that this sweep put in and that are not."""
        for name, whose in reversed(self.state.patches):
            if name not in wanted:
                python, env = self._interpreter(self.profiles[whose])
                if patches.status(self.box, name, python=python, env=env, servers=False).state == "applied":
                    if server:  # the next server may not get a source that its profile does not name
                        patches.revert(self.box, name, python=python, env=env)
                    needed = patches.take_back(self.box, name, python=python, env=env)
                    self._say(f"patch {name} " + ("reverted" if needed is None else f"left in: {needed}"))
                self.state.write("unpatch", name=name)
        for name in wanted:
            python, env = self._interpreter(self.profiles[server])
            if patches.status(self.box, name, python=python, env=env, servers=False).state != "applied":
                self.state.write("patch", name=name, server=server)
                patches.apply(self.box, name, python=python, env=env)
                self._say(f"patch {name} applied")

    def close(self) -> None:
        """Leave the box as it was: no server of this sweep, none of its patches."""
        for run in self.left.values():
            self._stop(run)
        self.left.clear()
        self.patch((), "")

    def _start(self, point: Point) -> Run:
        for attempt in range(1, ATTEMPTS + 1):
            planned = plan(self.box, point.profile)
            if self.progress:
                show_command(planned.text)
            self.state.write("start", server=point.server, run=planned.id)
            try:
                return start(self.box, planned)
            except RemoteFailed as error:
                self.state.write("stopped", run=planned.id)
                if not was_quicker(error, point.profile) or attempt == ATTEMPTS:
                    raise
        raise AssertionError("the loop returns or raises")

    def _stop(self, run: Run) -> None:
        bar = Progress(f"stop {run.id}", enabled=self.progress)
        run.stop()  # also after its death: what it left holds memory
        self.state.write("stopped", run=run.id)
        bar.done("stopped")

    def _ended(self, run_id: str, run: Run | None) -> None:
        if run is not None:
            run.stop()
        self.state.write("stopped", run=run_id)

    def _find(self, run_id: str) -> Run | None:
        try:
            return get_run(self.box, run_id)
        except UsageError as error:
            if error.code != "WB-SERVE-NO-RUN":
                raise
            return None  # it was written down and never begun

    def _interpreter(self, profile: Profile) -> tuple[str, dict[str, str]]:
        return expand(profile.python, self.box.home), server_environment(profile, home=self.box.home)

    def _say(self, text: str) -> None:
        Progress("sweep", enabled=self.progress).done(text)
