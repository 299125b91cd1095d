"""Ad-hoc work in a notebook: ``%load_ext helpers.magics``.

``%%box NAME``            the cell as a shell script on the box; ``--as "title"`` keeps it as evidence
``%box_show FILE A:B``    lines of a file on the box that the last ``%%box`` or ``%box_show --box NAME`` named
``%ledger NAME``          the ledger that the others below write to
``%hypothesis CLAIM``     with ``--predicts "..." --threshold "..."``
``%evidence EXPRESSION``  with ``--on H1 --supports`` (or ``--contradicts``) and ``--as "title"``
``%verdict H1 confirmed`` with ``--because E1,E2 --reason "..."``

Each is a thin line over a call that a cell can make as well: `helpers.connect`, `helpers.source.archaeology.show`,
`helpers.ledger.open_ledger`.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import shlex
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class

from helpers.errors import UsageError

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.box.result import CommandResult
    from helpers.ledger import Ledger
    from helpers.ledger.records import Evidence, Hypothesis, Verdict
    from helpers.source.excerpts import Excerpt

KEPT = 8 << 20
"""Bytes of each stream that a cell keeps as evidence; what comes after is shown, and not kept."""


class Words(argparse.ArgumentParser):
    """Options of a magic; a mistake is an error like all others, and never the end of the kernel."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            "WB-MAGIC-USAGE",
            f"%{self.prog}: {message}",
            expected=" ".join(self.format_usage().split()).removeprefix("usage: "),
            next=f"%{self.prog.lstrip('%')}? shows its options",
        )

    def of(self, line: str) -> argparse.Namespace:
        try:
            return self.parse_args(shlex.split(line))
        except ValueError as error:  # a quote that does not end
            self.error(str(error))


def words(name: str) -> Words:
    return Words(prog=name, add_help=False, allow_abbrev=False)


@magics_class
class WorkbookMagics(Magics):
    """The magics of one notebook: its connections, the box that was named last, and the ledger in use."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.shell: Any = shell
        self.boxes: dict[str, Box] = {}
        self.last = "lab"
        self.current: Ledger | None = None

    @line_cell_magic
    def box(self, line: str, cell: str | None = None) -> CommandResult | Evidence | None:
        """``%%box NAME [--as TITLE] [--on H1] [--supports|--contradicts] [--deadline S]``: the cell, on the box.

        It runs by the box's /bin/sh; its output comes as it is made. Interrupting the kernel ends its process group
        there. ``%box NAME COMMAND`` runs one line. The result is ``_box``; an exit status other than 0 is told, not
        raised.
        """
        options = words("box")
        options.add_argument("name", nargs="?", default=self.last)
        options.add_argument("--deadline", type=float)
        _keeping(options)
        if cell is None:
            options.add_argument("command", nargs=argparse.REMAINDER)
        given = options.of(line)
        script = cell if cell is not None else shlex.join(given.command)
        if not script.strip():
            options.error("there is nothing to run")
        ledger = self._ledger("%ledger NAME comes first where --as keeps a cell") if given.title else None
        result = run_script(self._box(given.name), script, deadline=given.deadline)
        self.shell.push({"_box": result})
        if not result.ok:
            print(f"exit status {result.exit_status}", file=sys.stderr)
        if ledger is None:
            return None
        return ledger.evidence(result, on=given.on, supports=given.bearing, title=given.title)

    @line_magic
    def box_show(self, line: str) -> Excerpt:
        """``%box_show FILE A:B [--box NAME] [--as TITLE ...]``: lines of the source that the box's server imports."""
        from helpers.source.archaeology import show

        options = words("box_show")
        options.add_argument("file")
        options.add_argument("lines", nargs="?", default=":")
        options.add_argument("--box", default=self.last)
        _keeping(options)
        given = options.of(line)
        ledger = self._ledger("%ledger NAME comes first where --as keeps lines") if given.title else None
        excerpt = show(self._box(given.box), given.file, given.lines)
        if ledger is not None:
            ledger.evidence(excerpt, on=given.on, supports=given.bearing, title=given.title)
        return excerpt

    @line_magic
    def ledger(self, line: str) -> Ledger:
        """``%ledger NAME [--title TEXT]``: the ledger that the other magics write to; without a name, shows it."""
        from helpers.ledger import open_ledger

        options = words("ledger")
        options.add_argument("name", nargs="?")
        options.add_argument("--title")
        given = options.of(line)
        if given.name is None:
            return self._ledger("which ledger?")
        self.current = open_ledger(given.name, title=given.title)
        return self.current

    @line_magic
    def hypothesis(self, line: str) -> Hypothesis:
        """``%hypothesis CLAIM --predicts TEXT --threshold TEXT [--key WORD]``: stated before there is evidence."""
        options = words("hypothesis")
        options.add_argument("claim", nargs="+")
        options.add_argument("--predicts")
        options.add_argument("--threshold")
        options.add_argument("--key")
        given = options.of(line)
        ledger = self._ledger("%ledger NAME comes first")
        claim = " ".join(given.claim)
        return ledger.hypothesis(claim, prediction=given.predicts, threshold=given.threshold, key=given.key)

    @line_magic
    def evidence(self, line: str) -> Evidence:
        """``%evidence EXPRESSION [--on H1,H2] [--supports|--contradicts] [--as TITLE]``: any result here."""
        options = words("evidence")
        options.add_argument("expression", nargs="+")
        _keeping(options)
        given = options.of(line)
        ledger = self._ledger("%ledger NAME comes first")
        result = self.shell.ev(" ".join(given.expression))
        return ledger.evidence(result, on=given.on, supports=given.bearing, title=given.title)

    @line_magic
    def verdict(self, line: str) -> Verdict:
        """``%verdict H1 confirmed|refuted|inconclusive --reason TEXT [--because E1,E2]``."""
        options = words("verdict")
        options.add_argument("hypothesis")
        options.add_argument("outcome", choices=["confirmed", "refuted", "inconclusive"])
        options.add_argument("--because", type=_list)
        options.add_argument("--reason", required=True)
        given = options.of(line)
        ledger = self._ledger("%ledger NAME comes first")
        return ledger.verdict(given.hypothesis, given.outcome, because=given.because, reason=given.reason)

    def close(self) -> None:
        """Lets go of the connections."""
        for box in self.boxes.values():
            box.close()
        self.boxes.clear()

    def _box(self, name: str) -> Box:
        from helpers.box import connect

        if name not in self.boxes:
            self.boxes[name] = connect(name)
        self.last = name
        return self.boxes[name]

    def _ledger(self, why: str) -> Ledger:
        if self.current is None:
            raise UsageError(
                "WB-MAGIC-LEDGER",
                f"no ledger is in use: {why}",
                expected="the name of an investigation",
                next="%ledger acceptance-drop",
            )
        return self.current


def run_script(box: Box, script: str, *, deadline: float | None = None) -> CommandResult:
    """Runs shell text on a box and shows its output as it comes.

    An interrupt ends its process group there, and is raised.
    """
    from helpers.box.result import CommandResult

    execution = box.execute(["/bin/sh", "-c", script], deadline=deadline)
    shown: dict[str, TextIO] = {"out": sys.stdout, "err": sys.stderr}
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in shown}
    kept, count = {"out": b"", "err": b""}, {"out": 0, "err": 0}
    started, clock = datetime.now(UTC), time.monotonic()
    with contextlib.closing(execution.events()) as events:
        for name, block in events:
            count[name] += len(block)
            kept[name] = (kept[name] + block)[:KEPT]
            shown[name].write(decoders[name].decode(block))
            shown[name].flush()
    return CommandResult(
        argv=("/bin/sh", "-c", script),
        command=script.strip(),
        exit_status=execution.exit_status if execution.exit_status is not None else -1,
        stdout=kept["out"].decode("utf-8", "surrogateescape"),
        stderr=kept["err"].decode("utf-8", "surrogateescape"),
        seconds=time.monotonic() - clock,
        bytes_stdout=count["out"],
        bytes_stderr=count["err"],
        box=box.name,
        started=started.isoformat(timespec="milliseconds"),
    )


def _keeping(options: argparse.ArgumentParser) -> None:
    """The options of everything that can become evidence."""
    options.add_argument("--as", dest="title")
    options.add_argument("--on", type=_list, default=[])
    options.add_argument("--supports", dest="bearing", action="store_const", const=True)
    options.add_argument("--contradicts", dest="bearing", action="store_const", const=False)


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext helpers.magics`` calls."""
    if "WorkbookMagics" not in shell.magics_manager.registry:
        shell.register_magics(WorkbookMagics)


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext helpers.magics`` calls: the connections are closed."""
    found = shell.magics_manager.registry.pop("WorkbookMagics", None)
    if found is not None:
        found.close()
