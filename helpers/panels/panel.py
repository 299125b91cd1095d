"""What all panels are made of: a heading, controls, a status line, "show the call", cancel, and the static twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from helpers.panels import markup
from helpers.panels.attended import attended
from helpers.panels.hearing import heard_while_busy
from helpers.panels.static import Static
from helpers.panels.status import StatusLine
from helpers.panels.worker import Job, Token, Worker

#: Seconds for which showing a panel waits for what it looks up first, so that a saved notebook has it.
FIRST_LOOK = 2.0
#: The same where nobody is there: what is found after the cell has ended would reach no saved notebook.
UNATTENDED = 600.0


class Panel:
    """A view over a model. A subclass builds `widget` with `assemble`, and says `static` and `call`.

    Work runs in `worker`, one job at a time; while it runs the controls in ``idle_only`` are off and Cancel is on.
    """

    title: str = ""
    patience: float | None = FIRST_LOOK

    def __init__(self) -> None:
        self.worker = Worker(self._job_changed)
        self.status = StatusLine()
        self.cancel = button("Cancel", "Ends the work that is under way", self.worker.cancel, disabled=True)
        self._show_call = checkbox("Show the call", "Shows the Python that does the same")
        self._call = widgets.HTML()
        self._show_call.observe(lambda _: self.refresh_call(), "value")
        self.idle_only: list[widgets.Widget] = []
        self.widget = widgets.VBox([])
        self._stale: list[Any] = []

    def static(self) -> Static:
        """The panel as tables and figures, as it is now; what is being looked up is waited for, for ``patience``."""
        self._wait_for_look(self.patience)
        return self._now()

    def snapshot(self) -> Static:
        """As `static`, without waiting."""
        raise NotImplementedError

    def _now(self) -> Static:
        """The snapshot, and why the work that was done last has failed."""
        shown, job = self.snapshot(), self.worker.job
        return replace(shown, paragraphs=[*shown.paragraphs, f"{job.title}: {job.error}"]) if job.error else shown

    def _wait_for_look(self, patience: float | None) -> None:
        """Waits for what is being looked up: for ``patience`` seconds, to its end where nobody is there."""
        if patience is not None and self.worker.reading and not attended():
            patience = UNATTENDED
        self.worker.wait(patience)

    def call(self) -> str:
        """Python that does what the panel shows."""
        raise NotImplementedError

    def assemble(self, controls: Sequence[widgets.Widget], body: Sequence[widgets.Widget]) -> None:
        """Puts the panel together."""
        head = widgets.HTML(markup.heading(self.title))
        bar = row([*controls, self.cancel, self._show_call])
        self.widget.children = [head, bar, self.status, self._call, *body]

    def work(
        self,
        title: str,
        work: Callable[[Token], Any],
        then: Callable[[Any], None] | None = None,
        *,
        drop: bool = False,
    ) -> None:
        """Runs this beside the main thread, and says so where other work is under way."""
        if not self.worker.start(title, work, then, drop=drop):
            self.status.say(f"still at work: {self.worker.job.title}. Cancel it, or wait.", "busy")

    def refresh_call(self) -> None:
        """Shows the call as it is now, where it is shown."""
        shown = markup.block(self.call(), label="the equivalent Python") if self._show_call.value else ""
        if self._call.value != shown:
            self._call.value = shown

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the work under way; False where it goes on after ``timeout`` seconds."""
        return self.worker.wait(timeout)

    def _job_changed(self, job: Job) -> None:
        for control in self.idle_only:
            control.disabled = job.busy
        self.cancel.disabled = job.state != "running"
        if job.busy:
            detail = f": {job.detail}" if job.detail else ""
            ending = ", to be cancelled at the next safe place" if job.state == "cancelling" else ""
            self.status.say(f"{job.title}{detail}{ending}", "busy")
        elif job.state == "failed":
            self.status.say(job.error, "error")
        elif job.state == "cancelled":
            self.status.say(f"{job.title}: cancelled")
        elif job.state == "done":
            self.status.say(f"{job.title}: done in {job.seconds:.1f} s", "done")
        self.refresh_call()
        if not job.busy:
            self._complete_saved()

    def _complete_saved(self) -> None:
        """What was shown before the first look had ended gets its static twin now, once."""
        while self._stale:
            self._stale.pop().update(self.bundle(), raw=True)

    def bundle(self) -> dict[str, Any]:
        """The live view beside the static twin: each front end, and each exporter, takes what it can show."""
        live: dict[str, Any] = self.widget._repr_mimebundle_()
        return {**live, **self._now().bundle()}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._wait_for_look(FIRST_LOOK)
        late = self.worker.busy
        handle = display(self.bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        if handle is not None and late:
            self._stale.append(handle)
            if not self.worker.busy:  # it ended while it was shown
                self._complete_saved()


def button(label: str, tooltip: str, action: Callable[[], Any], *, disabled: bool = False) -> widgets.Button:
    """A button; ``tooltip`` is what a screen reader adds to its label."""
    made = widgets.Button(description=label, tooltip=tooltip, disabled=disabled, layout={"width": "auto"})
    made.on_click(lambda _: action())
    return heard_while_busy(made)


def checkbox(label: str, tooltip: str, *, value: bool = False) -> widgets.Checkbox:
    made = widgets.Checkbox(value=value, description=label, tooltip=tooltip, indent=False, layout={"width": "auto"})
    return heard_while_busy(made)


def field(label: str, tooltip: str, *, placeholder: str = "", live: bool = True) -> widgets.Text:
    """A line to type in; its label is the control's name. Without ``live`` it counts when Enter is pressed."""
    made = widgets.Text(
        description=label,
        tooltip=tooltip,
        placeholder=placeholder,
        continuous_update=live,
        style={"description_width": "initial"},
        layout={"width": "420px"},
    )
    return heard_while_busy(made)


def dropdown(label: str, options: Sequence[Any], *, width: str = "auto", tooltip: str = "") -> widgets.Dropdown:
    """A list to choose from; its label is the control's name."""
    made = widgets.Dropdown(
        description=label,
        options=list(options),
        tooltip=tooltip or label,
        layout={"width": width},
        style={"description_width": "initial"},
    )
    return heard_while_busy(made)


def row(children: Sequence[widgets.Widget]) -> widgets.HBox:
    """Controls side by side, wrapped where the window is narrow."""
    return widgets.HBox(children, layout={"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 10px"})
