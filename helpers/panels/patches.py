"""The patches panel: which patches the box's SGLang has, what one would change, its going in and coming out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from helpers.panels import markup
from helpers.panels.panel import Panel, button, checkbox, dropdown, field, row
from helpers.panels.patches_model import FORCED, PatchesModel
from helpers.panels.static import Static
from helpers.panels.worker import Token

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.source.patch_report import PatchReport


class PatchesPanel(Panel):
    """See `patches_panel`. ``model`` is what it shows and does, without a widget."""

    def __init__(self, model: PatchesModel) -> None:
        super().__init__()
        self.model = model
        self.title = f"Patches on {model.box.name}"
        self.where = widgets.HTML(markup.paragraph(model.checkout_words()))
        self.table, self.outcome, self.files, self.diff = (widgets.HTML() for _ in range(4))
        self.patch = dropdown("Patch", [], tooltip="The patch that the buttons act on")
        self.plan = button("Plan", "Shows what Apply would change; writes nothing", self._plan)
        self.apply = button("Apply", "Puts the patch into the box's SGLang", self._apply)
        self.revert = button("Revert", "Takes the patch out again", self._revert)
        self.force = checkbox("By force, once", FORCED)
        self.forced = widgets.HTML()
        self.refresh = button("Refresh", "Looks at every patch again", self.look)
        self.own = field(
            "A file of your own",
            "The path of a unified diff on this machine; Enter adds it to the list",
            placeholder="path of a unified diff, then Enter",
            live=False,
        )
        self.force.observe(self._force, "value")
        self.own.observe(self._added, "value")
        self.patch.observe(self._chosen, "value")
        self.idle_only = [self.patch, self.plan, self.apply, self.revert, self.force, self.refresh, self.own]
        self.assemble(
            [self.patch, self.plan, self.apply, self.revert, self.force, self.refresh],
            [self.forced, self.where, self.table, row([self.own]), self.outcome, self.files, self.diff],
        )
        self.look()

    def look(self) -> None:
        """Look at every patch again."""

        def work(token: Token) -> Any:
            return self.model.look(token.check, lambda name: self.worker.detail(name, token))

        self.work("Looking at the patches", work, self._looked, drop=True)

    def snapshot(self) -> Static:
        return self.model.static()

    def call(self) -> str:
        return self.model.call()

    def _looked(self, found: Any) -> None:
        self.model.take(found)
        self.where.value = markup.paragraph(self.model.checkout_words())
        self.patch.options = list(self.model.reports)
        if self.model.chosen:
            self.patch.value = self.model.chosen
        self._draw()

    def _plan(self) -> None:
        self._act("Planning", self.model.plan, drop=True)

    def _apply(self) -> None:
        self._change("Applying", self.model.apply)

    def _revert(self) -> None:
        self._change("Reverting", self.model.revert)

    def _change(self, verb: str, action: Callable[..., PatchReport]) -> None:
        """Apply or revert, by force where that is ticked; then it is off again: it was meant for this one change."""
        force = self.model.force
        self._act(verb, partial(action, force=force), how=" by force" if force else "")
        self.force.value = False

    def _force(self, _: Mapping[str, Any]) -> None:
        self.model.force = self.force.value
        self.forced.value = markup.paragraph(FORCED) if self.force.value else ""
        self.refresh_call()

    def _act(self, verb: str, action: Callable[[], PatchReport], *, drop: bool = False, how: str = "") -> None:
        if not self.model.chosen:
            self.status.say("There is no patch to act on.")
            return

        def done(report: PatchReport) -> None:
            self.model.took(report)
            self._draw()

        # A patch goes in whole or not at all: once begun it is not cut short.
        self.work(f"{verb} {self.model.chosen}{how}", lambda token: action(), done, drop=drop)

    def _chosen(self, _: Mapping[str, Any]) -> None:
        if self.patch.value is not None and self.patch.value != self.model.chosen:
            self.model.chosen, self.model.planned = self.patch.value, None
            self.force.value = False  # it was ticked for the patch that was chosen
            self._draw()
            self.refresh_call()

    def _added(self, _: Mapping[str, Any]) -> None:
        path = self.own.value.strip()
        if path and path not in self.model.reports:
            self.work(
                f"Looking at {path}", lambda token: self.model.status(path), partial(self._take_own, path), drop=True
            )

    def _take_own(self, path: str, report: PatchReport) -> None:
        self.model.add(path, report)
        self.force.value = False
        self.patch.options = list(self.model.reports)
        self.patch.value = path
        self._draw()

    def _draw(self) -> None:
        model = self.model
        self.table.value = markup.table(model.rows(), caption="Patches")
        self.outcome.value = markup.paragraph(model.outcome()) if model.outcome() else ""
        planned = model.planned
        self.files.value = markup.table(model.file_rows(), caption=f"Files of {planned.name}") if planned else ""
        lines = planned.diff.rstrip().split("\n") if planned is not None and planned.diff else []
        self.diff.value = markup.diff(lines, label=f"the patch {model.chosen}") if lines else ""


def patches_panel(box: Box, *, python: str | None = None, env: Mapping[str, str] | None = None) -> PatchesPanel:
    """The patches of this repository (and files of one's own) on a box: state, plan with its diff, apply, revert.

    What is refused because a living run relies on it, or because a file was changed since, can be done by force, for
    one press; see WB-PATCH-IN-USE and WB-PATCH-DRIFTED.

    >>> panel = patches_panel(helpers.connect("lab")); panel      # doctest: +SKIP

    Args:
        python: the interpreter whose SGLang is meant; None takes that of the newest living run, else ``python3``.
        env: what its server is given beside the box's own environment (a PYTHONPATH decides).
    """
    return PatchesPanel(PatchesModel(box, python, env))
