"""What the patches panel shows and does, without a widget. Its calls talk to the box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from helpers.panels.static import Static, Table
from helpers.serving import find_runs
from helpers.serving.argv import masked
from helpers.serving.records import RUNS
from helpers.serving.registry import preferred
from helpers.source import patches
from helpers.source.checkout import Checkout, find_checkout
from helpers.source.patch_report import WORDS, PatchReport
from helpers.source.patch_state import patch_names

if TYPE_CHECKING:
    from helpers.box import Box

FORCED = (
    "By force, the next Apply or Revert is done also under a living run, anybody's, that relies on the patch or still "
    "reads this source; Revert also takes the patch's lines out of a file that was changed since, and keeps the "
    "changes. Ask the run's owner first. It holds for one press."
)


class PatchesModel:
    """State of the panel.

    Args:
        python: the interpreter whose SGLang is meant; None takes that of the newest living run, else ``python3``.
        env: what a server would be given beside the box's own environment (a PYTHONPATH decides).

    Attributes:
        reports: the state of each patch as it was looked at last, by name. own: files of one's own among them.
        planned: the plan, or what was done last. force: whether Apply and Revert are meant to be done all the same
            where they are refused.
    """

    def __init__(self, box: Box, python: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self.box, self.wanted, self.env = box, python, env
        self.python = python or "python3"
        self.checkout: Checkout | None = None
        self.reports: dict[str, PatchReport] = {}
        self.own: list[str] = []
        self.chosen = ""
        self.planned: PatchReport | None = None
        self.force = False

    def look(self, check: Callable[[], None], tell: Callable[[str], None]) -> tuple[Checkout, dict[str, PatchReport]]:
        """The state of every patch for the SGLang that the box has.

        Args:
            check: called between two patches; what it raises ends the looking. tell: is told which patch it is.
        """
        if self.wanted is None:
            registry = self.box.run(["ls", "-d", self.box.path(RUNS)], check=False, idempotent=True)
            living = find_runs(self.box, alive=True) if registry.ok else []
            self.python = preferred(living).record.engine.python if living else "python3"
        checkout = find_checkout(self.box, self.python, self.env)
        found: dict[str, PatchReport] = {}
        for name in [*patch_names(checkout.version), *self.own]:
            check()
            tell(name)
            found[name] = patches.status(self.box, name, python=self.python, env=self.env)
        return checkout, found

    def take(self, looked: tuple[Checkout, dict[str, PatchReport]]) -> None:
        self.checkout, self.reports = looked
        if self.chosen not in self.reports:
            self.chosen = next(iter(self.reports), "")

    def status(self, path: str) -> PatchReport:
        """The state of a patch that is a file of one's own.

        Raises:
            UsageError: WB-PATCH-UNKNOWN, WB-PATCH-UNREADABLE.
        """
        return patches.status(self.box, path, python=self.python, env=self.env)

    def add(self, path: str, report: PatchReport) -> None:
        """List a file of one's own, and choose it."""
        self.own.append(path)
        self.reports[path] = report
        self.chosen, self.planned = path, None

    def plan(self) -> PatchReport:
        """What Apply would do with the chosen patch. Nothing is written."""
        return patches.plan(self.box, self.chosen, python=self.python, env=self.env)

    def apply(self, *, force: bool = False) -> PatchReport:
        """Raises: as `patches.apply`."""
        return patches.apply(self.box, self.chosen, python=self.python, env=self.env, force=force)

    def revert(self, *, force: bool = False) -> PatchReport:
        """Raises: as `patches.revert`."""
        return patches.revert(self.box, self.chosen, python=self.python, env=self.env, force=force)

    def took(self, report: PatchReport) -> None:
        """Show what was planned or done; the table says its state."""
        self.planned = report
        self.reports[self.chosen] = report

    def rows(self) -> list[dict[str, str]]:
        """A row a patch."""
        return [
            {
                "patch": name,
                "state": report.state,
                "that is": WORDS[report.state],
                "since": report.since or "",
                "files": "\n".join(f"{file.path}{_lines(file.lines)}" for file in report.files),
                "servers with the old text": ", ".join(map(str, report.servers)) or "none",
            }
            for name, report in self.reports.items()
        ]

    def outcome(self) -> str:
        """What was planned or done, in a sentence."""
        return "" if self.planned is None else str(self.planned)

    def file_rows(self) -> list[dict[str, str]]:
        """The files of what was planned or done, with their hashes."""
        report = self.planned
        return [
            {
                "file": file.path,
                "state": file.state,
                "lines": ", ".join(map(str, file.lines)),
                "sha256 without it": (file.before or "")[:16],
                "sha256 with it": (file.after or "")[:16],
                "in the way": "\n".join([file.problem, *file.hunk]).strip() or "nothing",
            }
            for file in (report.files if report is not None else ())
        ]

    def checkout_words(self) -> str:
        if self.checkout is None:
            return f"{self.box.name}: not looked at yet"
        return f"{self.box.name}: sglang {self.checkout.version} in {self.checkout.root}, as {self.python} imports it"

    def call(self) -> str:
        """Plan, apply, revert as plain calls."""
        python = "" if self.python == "python3" else f", python={self.python!r}"
        env = f", env={masked(self.env)!r}" if self.env else ""
        name, force = f"{self.chosen!r}{python}{env}", ", force=True" if self.force else ""
        return "\n".join(
            [
                "from helpers.source import patches",
                f"print(patches.plan(box, {name}).diff)",
                f"patches.apply(box, {name}{force})",
                f"patches.revert(box, {name}{force})",
            ]
        )

    def static(self) -> Static:
        """The patches and their states, and what was planned or done last."""
        tables = [Table("Patches", self.rows())]
        blocks = []
        if self.planned is not None:
            tables.append(Table(f"Files of {self.planned.name}", self.file_rows()))
            if self.planned.diff:
                blocks.append((f"The patch {self.planned.name}", self.planned.diff.rstrip()))
        words = [self.checkout_words(), *([self.outcome()] if self.outcome() else [])]
        return Static(f"Patches on {self.box.name}", words, tables, blocks)


def _lines(lines: tuple[int, ...]) -> str:
    return f", lines {', '.join(map(str, lines))}" if lines else ""
