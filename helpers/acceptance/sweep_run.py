"""A grid measured on a box: one start a server, several loads a start, every finished point on disk.

A folder holds ``settings.json`` (the grid as it is in force), ``sweep.jsonl`` (what was done, see `sweep_state`),
``points/<point>/`` (a bench's folder each), and the results, ``results.jsonl``. The same call on the same folder goes
on after a kill: finished points are not measured again, a point that was cut goes on with the requests that it lacks,
and the server that was left is used or ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.acceptance.arms import ModelAbout, Seat, about, deciding, seat_of
from helpers.acceptance.bench_result import Bench, over_starts_too
from helpers.acceptance.bench_run import ROWS, bench, check, described
from helpers.acceptance.grid import Grid
from helpers.acceptance.journal import Journal, claim
from helpers.acceptance.load_failures import as_failure
from helpers.acceptance.points import Point, points
from helpers.acceptance.prompts import Prompt
from helpers.acceptance.sweep_results import Sweep, write_results
from helpers.acceptance.sweep_server import Servers
from helpers.acceptance.sweep_state import Row, State
from helpers.acceptance.versus import Versus, versus
from helpers.errors import RemoteFailed, UsageError, WorkbookError, WrongResult
from helpers.progress import Progress
from helpers.serving.profile import Profile
from helpers.serving.run import Run

if TYPE_CHECKING:
    from helpers.box import Box

SCHEMA = "workbook.sweep/1"
SETTINGS, POINTS = "settings.json", "points"


@dataclass(frozen=True)
class _Side:
    """A point's server, as the one side of a bench; without a run it only reads what was answered."""

    profile: Profile
    about: ModelAbout
    run: Run | None = None

    @property
    def name(self) -> str:
        return self.profile.name

    @contextmanager
    def open(self, *, progress: bool = True) -> Iterator[Seat]:
        run = self.run
        assert run is not None, "a bench that has all answers asks nobody"
        with run.tunnel() as tunnel:
            yield seat_of(run, tunnel.url)


def sweep(
    box: Box,
    grid: Grid,
    profiles: Mapping[str, Profile],
    prompts: Sequence[Prompt],
    out: Path,
    *,
    retry: bool = False,
    progress: bool = True,
) -> Sweep:
    """Measure every point of a grid that has no result yet.

    A point whose server does not start, or dies under it, is recorded with the cause, and the sweep goes on. Ctrl-C
    stops the server and takes the patches out; a kill leaves them for the next call to find.

    Args:
        prompts: the same for all points. out: a new folder, or that of an earlier call with the same grid.
        retry: measure failed and partial points again.

    Raises:
        UsageError: WB-GRID-INVALID, WB-PROMPTS-VOCABULARY, WB-LOAD-SETTINGS, WB-RESUME-...; nothing was started.
        BoxUnreachable: the box was lost; the same call goes on later.
        WrongResult: WB-SERVE-LEFTOVERS; no further server was started beside what is left.
    """
    work = _Work(box, grid, prompts, out, points(grid, profiles), progress)
    for point in work.every:
        check([work.side(point)], prompts, grid.load)
    with State(out) as state:
        claim(out / SETTINGS, work.described(), schema=SCHEMA)
        finished = {id: row for id, row in state.rows.items() if not retry or row.status == "done"}
        left = [point for point in work.every if point.id not in finished]
        bar = Progress(f"sweep of {len(work.every)} points", enabled=progress)
        if finished:
            bar.update(f"going on: {len(finished)} of {len(work.every)} points were finished before")
        servers = Servers(box, state, {point.server: point.profile for point in work.every}, progress=progress)
        servers.adopt([point.server for point in left])
        try:
            for server in dict.fromkeys(point.server for point in left):
                mine = [point for point in left if point.server == server]
                while mine:  # a server that fails under a point is started again for the rest
                    for row in work.served(servers, mine):
                        state.write("point", row=row.model_dump(mode="json"))
                        write_results(work.every, state.rows, out)
                        mine = [point for point in mine if point.id != row.point]
                        bar.update(f"{row.point} {row.status};", f"{len(state.rows)} of {len(work.every)} points")
        finally:
            servers.close()
        found = write_results(work.every, state.rows, out)
        bar.done(found.counts)
        return found


class _Work:
    """What measuring a point needs."""

    def __init__(
        self, box: Box, grid: Grid, prompts: Sequence[Prompt], out: Path, every: Sequence[Point], progress: bool
    ) -> None:
        self.box, self.grid, self.prompts, self.out, self.every, self.progress = (
            box,
            grid,
            prompts,
            out,
            every,
            progress,
        )
        self._about: dict[str, ModelAbout] = {}
        self._baselines: dict[str, Bench] = {}

    def side(self, point: Point, run: Run | None = None) -> _Side:
        if point.server not in self._about:
            self._about[point.server] = about(self.box, point.profile)
        return _Side(point.profile, self._about[point.server], run)

    def described(self) -> dict[str, Any]:
        """What the results depend on."""
        shared = described([], self.prompts, self.grid.load, 1)
        return {**shared, "points": {p.id: [deciding(p.profile), p.batch_size] for p in self.every}}

    def served(self, servers: Servers, mine: Sequence[Point]) -> Iterator[Row]:
        """One start: its points until all are finished, or one of them ended with a failure."""
        told: list[Point] = []
        codes: tuple[str, ...] = ()
        try:
            if self.grid.preflight and mine[0].server not in servers.left:
                servers.patch(mine[0].profile.patches, mine[0].server)
                codes = self._preflight(mine[0])
            with servers.serve(mine, self.grid.timeout) as run:
                for point in mine:
                    row = self._measured(point, run, codes)
                    told.append(point)
                    yield row
                    if row.status != "done":
                        return
        except (RemoteFailed, UsageError) as error:
            if error.code.startswith("WB-RESUME"):  # this machine's disk, and no point's fault
                raise
            for point in mine:
                if point not in told:
                    yield self._failed(point, error, codes)

    def _measured(self, point: Point, run: Run, codes: tuple[str, ...]) -> Row:
        began = time.monotonic()
        try:
            found = self._bench(point, run)
            against = self._against(point, found)
        except WrongResult as error:  # figures that contradict each other: the answers stay, the figures are refused
            return self._failed(point, error, codes)
        return Row(
            point=point.id,
            status="done" if not found.partial else "partial" if found.arms else "failed",
            baseline=point.baseline,
            axes=point.axes,
            measurement=found.arms[0] if found.arms else None,
            versus=against,
            cause=found.failure,
            preflight=codes,
            seconds=round(time.monotonic() - began, 3),
        )

    def _bench(self, point: Point, run: Run | None = None) -> Bench:
        settings = self.grid.load.model_copy(update={"concurrency": point.batch_size})
        side, folder = self.side(point, run), self.out / POINTS / point.id
        return bench([side], self.prompts, settings, folder, progress=self.progress and run is not None)

    def _against(self, point: Point, found: Bench) -> Versus | None:
        """The point against the baseline of its batch size, and of its backend where there is one."""
        if point.baseline:
            self._baselines[point.id] = found
            return None
        fitting = [one for one in self.every if one.baseline and one.batch_size == point.batch_size]
        fitting.sort(key=lambda one: one.axes["backend"] != point.axes["backend"])
        if not fitting or not (self.out / POINTS / fitting[0].id).exists():
            return None
        base = fitting[0]
        if base.id not in self._baselines:  # measured by an earlier call: nothing is asked any more
            if (one := self._finished(base)) is None:
                return None
            self._baselines[base.id] = one
        greedy = self.grid.load.temperature == 0
        plain = self._baselines[base.id]
        mine, theirs = found.loads[point.profile.name], plain.loads[base.profile.name]
        told = versus(point.id, mine, base.id, theirs, greedy=greedy)
        return over_starts_too(told, found.arms[0], plain.arms[0]) if found.arms and plain.arms else told

    def _finished(self, point: Point) -> Bench | None:
        """A finished point's answers; None where it lacks some, and would ask for them."""
        with Journal(self.out / POINTS / point.id / ROWS) as journal:
            answered = sum(row["ok"] for row in journal.rows)
        return self._bench(point) if answered >= len(self.prompts) * len(self.grid.load.seeds) else None

    def _failed(self, point: Point, error: WorkbookError, codes: tuple[str, ...]) -> Row:
        return Row(
            point=point.id,
            status="failed",
            baseline=point.baseline,
            axes=point.axes,
            cause=as_failure(error),
            preflight=codes,
        )

    def _preflight(self, point: Point) -> tuple[str, ...]:
        """Codes of what is wrong with a launch.

        Raises:
            UsageError: WB-SWEEP-PREFLIGHT, with the errors among it.
        """
        from helpers.serving.preflight import examine, gathered_there

        with gathered_there(point.profile, self.box) as facts:
            found = examine(facts).findings
        errors = [finding for finding in found if finding.severity == "error"]
        if errors:
            raise UsageError(
                "WB-SWEEP-PREFLIGHT",
                f"{point.server} was not started: {errors[0].code}: {errors[0].summary}",
                expected="a launch in which preflight finds no error",
                next="mend the point; or set preflight = false in the grid to start it all the same",
                lines=[f"{finding.code}: {finding.summary}" for finding in errors],
            )
        return tuple(finding.code for finding in found if finding.severity != "info")
