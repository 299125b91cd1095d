"""What a ledger shows: what holds, what is stale, and tables for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from helpers.ledger.files import locate, look
from helpers.ledger.records import AnyEntry, Evidence, File, Hypothesis, Verdict
from helpers.ledger.writing import Book

if TYPE_CHECKING:
    import pandas as pd

    from helpers.ledger.report import ReportPaths


class View(Book):
    """The reading side of a ledger."""

    @property
    def entries(self) -> list[AnyEntry]:
        """All lines."""
        return list(self.state.entries.values())

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """All hypotheses, as amended."""
        return self.state.hypotheses

    def evidence_on(self, hypothesis: Hypothesis | str | None = None, *, replaced: bool = False) -> list[Evidence]:
        """Evidence that holds, of one hypothesis or of all; with ``replaced`` also what was replaced since."""
        return self.state.evidence(None if hypothesis is None else self.get(hypothesis).id, replaced=replaced)

    def verdict_on(self, hypothesis: Hypothesis | str) -> Verdict | None:
        """The verdict that holds; None while it is open."""
        return self.state.verdict(self.get(hypothesis).id)

    def stale(self, evidence: Evidence, *, thorough: bool = False) -> list[File]:
        """The files of evidence that are gone or changed. ``thorough`` reads every byte, as `verify` does."""
        since = None if thorough else evidence.at
        return [file for file in evidence.files if look(file, self.folder, since=since) != "same"]

    def path(self, file: File) -> Path:
        """Where a file of evidence lies."""
        return locate(file.path, self.folder)

    def table(self) -> pd.DataFrame:
        """A row a hypothesis: claim, prediction, threshold, evidence for and against, verdict."""
        import pandas as pd

        from helpers.ledger.showing import HYPOTHESIS_COLUMNS, hypothesis_rows

        return pd.DataFrame(hypothesis_rows(self), columns=list(HYPOTHESIS_COLUMNS)).set_index("id")

    def evidence_table(self, *, replaced: bool = False) -> pd.DataFrame:
        """A row a piece of evidence: what it bears on and how, title, summary, run, n, files, whether it is stale."""
        import pandas as pd

        from helpers.ledger.showing import EVIDENCE_COLUMNS, evidence_rows

        rows = evidence_rows(self, replaced=replaced)
        return pd.DataFrame(rows, columns=list(EVIDENCE_COLUMNS)).set_index("id")

    def report(self, *, homes: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> ReportPaths:
        """Writes report.html, report.json and report.md; see `helpers.ledger.investigation.write_ledger_report`."""
        from helpers.ledger.investigation import write_ledger_report

        return write_ledger_report(self, homes=homes, hosts=hosts)

    def _repr_html_(self) -> str:
        from helpers.ledger.showing import ledger_html

        return ledger_html(self)

    def __repr__(self) -> str:
        from helpers.ledger.showing import ledger_text

        return ledger_text(self)
