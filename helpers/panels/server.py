"""The server panel: what the box has, which profile is served, its start stage by stage, its log, its stop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from helpers.errors import WorkbookError
from helpers.panels import markup
from helpers.panels.panel import Panel, button, checkbox, dropdown, row
from helpers.panels.server_model import SHOWN_LINES, ServerModel, run_labels
from helpers.panels.static import Static
from helpers.panels.worker import Token
from helpers.serving.stages import STAGES, Stage

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving import Profile, Run

#: Seconds between two drawings of a log that grows.
REDRAW = 0.4


class ServerPanel(Panel):
    """See `server_panel`. ``model`` is what it shows and does, without a widget."""

    def __init__(self, model: ServerModel) -> None:
        super().__init__()
        self.model = model
        self.title = f"Server on {model.box.name}"
        self.facts = widgets.HTML(markup.paragraph(model.box_words()))
        self.profile = dropdown("Profile", list(model.profiles), tooltip="The configuration that Start serves")
        self.capture = checkbox("with the capture hook", "Serve so that tensors can be captured", value=model.capture)
        self.note = widgets.HTML(markup.paragraph(model.profile_words()))
        self.plan = button("Show the command", "Shows the exact command; starts nothing", self._plan)
        self.start = button("Start", "Starts the profile on the box and waits until it answers", self._start)
        self.refresh = button("Refresh", "Looks at GPUs, memory and servers again", self.look)
        self.command, self.stages, self.log = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.servers = widgets.HTML()
        self.run = dropdown("Run", run_labels([]), tooltip="The run that Stop ends and whose log is shown")
        self.stop = button("Stop", "Stops the chosen run, and makes sure that nothing of it is left", self._stop)
        self.show_log = button("Show its log", "Shows the last lines of the chosen run's log", self._log)
        self.idle_only = [self.plan, self.start, self.refresh, self.stop, self.show_log, self.profile, self.capture]
        self.profile.observe(self._chosen, "value")
        self.capture.observe(self._chosen, "value")
        self._drawn = 0.0
        runs = row([self.run, self.stop, self.show_log])
        self.assemble(
            [self.profile, self.capture, self.plan, self.start, self.refresh],
            [self.facts, self.note, self.command, self.stages, self.log, self.servers, runs],
        )
        self._draw_servers()
        self.look()

    def look(self) -> None:
        """Look at the box again."""
        self.work("Looking at the box", lambda token: self.model.look(), self._looked, drop=True)

    def snapshot(self) -> Static:
        return self.model.static()

    def call(self) -> str:
        return self.model.call()

    def _looked(self, found: Any) -> None:
        self.model.take(found)
        self.facts.value = markup.paragraph(self.model.box_words()) + (
            markup.table(self.model.gpu_rows(), caption="GPUs") if self.model.gpu_rows() else ""
        )
        self._draw_servers()

    def _chosen(self, _: Mapping[str, Any]) -> None:
        self.model.chosen, self.model.capture = self.profile.value, self.capture.value
        self.note.value = markup.paragraph(self.model.profile_words())
        self.refresh_call()

    def _plan(self) -> None:
        self.work("Planning the start", lambda token: self.model.plan(), lambda _: self._draw_command(), drop=True)

    def _start(self) -> None:
        profile = self.model.chosen

        def work(token: Token) -> Run:
            def watcher(stage: Stage, detail: str, line: str | None) -> None:
                token.check()
                if time.monotonic() - self._drawn > REDRAW:
                    self._draw_start()
                    self.worker.detail(f"{stage} {detail}".rstrip(), token)

            try:
                run = self.model.start(watcher)
            except BaseException:
                self._draw_start()
                with contextlib.suppress(WorkbookError):  # why the start failed is what has to be told
                    self._looked(self.model.look())
                raise
            self._draw_start()
            self._looked(self.model.look())
            return run

        self.work(f"Starting {profile}", work, lambda run: self._choose(run.id))

    def _stop(self) -> None:
        run = self.run.value
        if not run:
            self.status.say("There is no run to stop.")
            return

        def work(token: Token) -> None:
            self.model.stop(run)
            self._draw_start()
            self._looked(self.model.look())

        self.work(f"Stopping {run}", work)

    def _log(self) -> None:
        run = self.run.value
        if not run:
            self.status.say("There is no run whose log could be shown.")
            return
        self.work(
            f"Reading the log of {run}", lambda _: self.model.read_log(run), lambda _: self._draw_log(), drop=True
        )

    def _choose(self, run: str) -> None:
        if run in [value for _, value in self.run.options]:
            self.run.value = run

    def _draw_command(self) -> None:
        if self.model.command:
            inner = markup.block(self.model.command, label="the command, as it runs on the box")
            self.command.value = markup.folded("The command, as it runs on the box", inner, shown=True)

    def _draw_start(self) -> None:
        self._drawn = time.monotonic()
        self._draw_command()
        self.stages.value = stage_bar(self.model) if self.model.stage else ""
        self._draw_log()

    def _draw_log(self) -> None:
        lines = list(self.model.lines)[-SHOWN_LINES:]
        label = f"the last lines of the log of {self.model.log_of}"
        self.log.value = markup.paragraph(label) + markup.block("\n".join(lines), label=label) if lines else ""

    def _draw_servers(self) -> None:
        self.servers.value = markup.table(self.model.server_rows(), caption="Servers")
        chosen, labels = self.run.value, run_labels(self.model.listed())
        self.run.options = labels
        if chosen:
            self._choose(chosen)


def stage_bar(model: ServerModel) -> str:
    """How far a start is: a bar, and every stage with its state in words."""
    at = STAGES.index(model.stage) if model.stage else 0
    signs = {"passed": "✓", "answers": "✓", "to come": "·"}
    words = " → ".join(f"{signs.get(state, '▸')} {stage} ({state})" for stage, state in model.stages())
    ends = f'max="{len(STAGES) - 1}" value="{at}" aria-label="start of the server"'
    return f'<div style="{markup.TEXT}"><progress {ends} style="width:14em"></progress> {escape(words)}</div>'


def server_panel(box: Box, profiles: Mapping[str, Profile]) -> ServerPanel:
    """Serve a profile on a box: facts, the exact command, start with its stages, log, cause of a crash, stop.

    Everything that talks to the box runs beside the main thread and can be cancelled; a start that is cancelled is
    stopped. A server outlives the panel: whoever opens one on the same box finds it in the list.

    >>> panel = server_panel(helpers.connect("lab"), load_profiles()); panel      # doctest: +SKIP
    """
    return ServerPanel(ServerModel(box, profiles))
