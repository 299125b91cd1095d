"""What a ledger refuses, in words: each with what was met, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helpers.errors import UsageError
from helpers.ledger.records import Evidence, File, Hypothesis, Outcome
from helpers.nearest import did_you_mean
from helpers.screen import as_typed


def bad_name(name: str) -> UsageError:
    return UsageError(
        "WB-LEDGER-NAME",
        f"{name!r} is no name of an investigation",
        expected="the name of a folder: no slash, no control character, no leading dot or dash",
        next='open_ledger("acceptance-drop")',
    )


def missing(folder: Path, known: Sequence[str]) -> UsageError:
    """No ledger in a folder; one may have a report all the same, as that of notebook 00 has."""
    name = folder.name
    report = folder / "report.html"
    if report.is_file():
        return UsageError(
            "WB-LEDGER-MISSING",
            f"the investigation {name!r} keeps no ledger, as that of notebook 00 does not; it has a report",
            expected="one of " + ", ".join(known) if known else "an investigation of the notebooks 10 to 90",
            next=f"open its report, {as_typed(report)}; report.json beside it has the figures",
        )
    return UsageError(
        "WB-LEDGER-MISSING",
        f"there is no ledger of an investigation {name!r}",
        expected="one of " + ", ".join(known) if known else "a ledger; there is none yet",
        next=did_you_mean(name, known, "workbook ledger list, or in a notebook: open_ledger(NAME)"),
    )


def unknown(what: str, ledger: str, known: Sequence[str]) -> UsageError:
    return UsageError(
        "WB-LEDGER-UNKNOWN",
        f"{what!r} is nothing that the ledger {ledger} knows",
        expected="one of " + ", ".join(known[-12:]) if known else "a hypothesis; there is none yet",
        next=did_you_mean(what, known, f"workbook ledger show {ledger}"),
    )


def no_prediction(claim: str) -> UsageError:
    return UsageError(
        "WB-LEDGER-PREDICTION",
        f"the hypothesis {claim!r} is new and comes without a prediction or without a threshold",
        expected="both, before there is evidence: what would be seen, and at which figure it counts",
        next='ledger.hypothesis("...", prediction="...", threshold="...")',
    )


def no_file(error: FileNotFoundError) -> UsageError:
    return UsageError(
        "WB-LEDGER-FILE",
        f"{error.filename} is not there, so it cannot be evidence",
        expected="files that exist when they are recorded",
        next="make it again, or record the result that was made of it",
    )


def unwritten(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        "WB-LEDGER-WRITE",
        f"{folder} cannot be written: {error.strerror or error}",
        expected="a folder that can be written, on a disk with room and with locks (flock)",
        next="free some disk, or move the investigations: WORKBOOK_INVESTIGATIONS=FOLDER",
    )


def check_verdict(hypothesis: Hypothesis, outcome: Outcome, weighed: Sequence[Evidence]) -> None:
    """Refuse a verdict that its evidence does not carry.

    Raises:
        UsageError: ``WB-LEDGER-NO-EVIDENCE``.
    """
    if outcome not in ("confirmed", "refuted", "inconclusive"):
        raise _no_evidence(f"{outcome!r} is no verdict", "confirmed, refuted or inconclusive")
    foreign = [e.id for e in weighed if hypothesis.id not in e.on]
    if foreign:
        raise _no_evidence(f"{', '.join(foreign)} does not bear on {hypothesis.id}", f"evidence on {hypothesis.id}")
    if not weighed:
        raise _no_evidence(f"{hypothesis.id} has no evidence yet", "a verdict because of something that was seen")
    wanted = {"confirmed": "supports", "refuted": "contradicts"}.get(outcome)
    if wanted is not None and all(e.bearing != wanted for e in weighed):
        held = ", ".join(f"{e.id} {e.bearing}" for e in weighed)
        raise _no_evidence(f"nothing that {wanted} {hypothesis.id} is among the evidence ({held})", f"what {wanted} it")


def stale(evidence: Evidence, file: File) -> UsageError:
    return UsageError(
        "WB-LEDGER-STALE",
        f"{file.path}, on which {evidence.id} rests, is gone or is not what it was",
        expected=f"{file.bytes} bytes with the sha256 {file.sha256[:16]}...",
        next="record the evidence again from what is there now, then give the verdict",
    )


def _no_evidence(met: str, expected: str) -> UsageError:
    return UsageError(
        "WB-LEDGER-NO-EVIDENCE",
        met,
        expected=expected,
        next='e = ledger.evidence(result, on=h, supports=True, title="..."), then ledger.verdict(h, ..., because=[e])',
    )
