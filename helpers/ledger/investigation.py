"""The report of an investigation, made of its ledger alone: nothing in it that the ledger does not hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from helpers.ledger import appendix, chapters
from helpers.ledger.glossary import glossary
from helpers.ledger.report import ReportPaths, write_report
from helpers.revision import revision

if TYPE_CHECKING:
    from helpers.ledger.view import View


def write_ledger_report(ledger: View, *, homes: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> ReportPaths:
    """Writes report.html, report.json and report.md into the investigation's folder.

    The same ledger gives the same files, but for the time at which they were made.

    Args:
        homes, hosts: folders and names to hide beside those that are hidden anyway (tokens, keys, logins, homes,
            addresses, and the machines that the evidence itself names).
    """
    state = ledger.state
    told = chapters.summary(ledger)
    compared, limits = appendix.differences(ledger), appendix.limits(ledger)
    sections = [
        chapters.cause(ledger),
        chapters.hypotheses(ledger),
        *chapters.pictures(ledger),
        chapters.evidence(ledger),
        compared,
        limits,
        chapters.timeline(ledger),
        appendix.commands(ledger),
        appendix.files(ledger),
        glossary(),
    ]
    told_when, again = sections[-4], sections[-3]
    data: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "workbook": revision(),
        "title": ledger.title,
        "ledger": {"name": ledger.name, "entries": len(ledger.entries), "head": ledger.head},
        "summary": told,
        "hypotheses": [
            {**h.model_dump(mode="json"), "standing": state.standing(h.id), "verdict": _verdict(ledger, h.id)}
            for h in state.hypotheses
        ],
        "evidence": [e.model_dump(mode="json") for e in state.evidence()],
        "amendments": [a.model_dump(mode="json") for h in state.hypotheses for a in state.amendments(h.id)],
        "differences": [dict(row) for row in compared.table],
        "limits": list(limits.paragraphs),
        "commands": list(again.commands),
        "timeline": [dict(row) for row in told_when.table],
    }
    return write_report(
        ledger.folder,
        title=ledger.title,
        summary=told,
        sections=[section for section in sections if section.paragraphs or section.table or section.commands],
        data=data,
        homes=homes,
        hosts=(*hosts, *_hosts(ledger)),
        markdown=True,
    )


def _verdict(ledger: View, hypothesis: str) -> dict[str, Any] | None:
    found = ledger.state.verdict(hypothesis)
    return None if found is None else found.model_dump(mode="json")


def _hosts(ledger: View) -> tuple[str, ...]:
    """Machines and logins that the evidence names: of boxes, and of those who wrote."""
    names = {str(e.values.get(key) or "") for e in ledger.state.evidence() for key in ("host", "user")}
    names |= {part for entry in ledger.entries for part in entry.by.split("@")}
    return tuple(sorted(names - {"", "root", "localhost", "127.0.0.1"}))
