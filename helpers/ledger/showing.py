"""A ledger for the eye: rows for tables, HTML for notebooks, text for a terminal. What counts stands in words."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from helpers.ledger.records import Evidence, Hypothesis, Verdict
from helpers.ledger.state import NOTHING

if TYPE_CHECKING:
    from helpers.ledger.view import View

# Okabe and Ito, as in the figures; each stands beside its word.
_COLOURS = {"confirmed": "#009E73", "refuted": "#D55E00", "inconclusive": "#8a6d00", "open": "#56616b"}
SIGNS = {"supports": "+", "contradicts": "−", "neutral": "·"}
_CELL = (
    "style='text-align:left;vertical-align:top;padding:.3em .7em;border-bottom:1px solid #ccc;"
    "overflow-wrap:anywhere;min-width:5em'"
)

HYPOTHESIS_COLUMNS = ("id", "claim", "prediction", "threshold", *SIGNS, "verdict", "because", "reason", "look again")
EVIDENCE_COLUMNS = ("id", "on", "bearing", "title", "summary", "source", "run", "n", "files", "stale", "at")


def hypothesis_rows(ledger: View) -> list[dict[str, Any]]:
    """A row a hypothesis."""
    state = ledger.state
    rows = []
    for h in state.hypotheses:
        verdict, evidence = state.verdict(h.id), state.evidence(h.id)
        rows.append(
            {
                "id": h.id,
                "claim": h.claim,
                "prediction": h.prediction,
                "threshold": h.threshold,
                **{name: ", ".join(e.id for e in evidence if e.bearing == name) for name in SIGNS},
                "verdict": state.standing(h.id),
                "because": ", ".join(verdict.because) if verdict else "",
                "reason": verdict.reason if verdict else "",
                "look again": "; ".join(doubts(ledger, h)),
            }
        )
    return rows


def evidence_rows(ledger: View, *, replaced: bool = False) -> list[dict[str, Any]]:
    """A row a piece of evidence."""
    return [
        {
            "id": e.id,
            "on": ", ".join(e.on),
            "bearing": e.bearing,
            "title": e.title,
            "summary": e.summary,
            "source": e.source,
            "run": e.run or "",
            "n": f"{e.n:,} {e.unit or ''}".strip() if e.n is not None else "",
            "files": len(e.files),
            "stale": ", ".join(file.path for file in ledger.stale(e)),
            "at": e.at,
        }
        for e in ledger.state.evidence(replaced=replaced)
    ]


def doubts(ledger: View, hypothesis: Hypothesis) -> list[str]:
    """Why the verdict on a hypothesis may have to be looked at again: also files that changed."""
    verdict = ledger.state.verdict(hypothesis.id)
    words = ledger.state.doubts(hypothesis.id)
    if verdict is not None:
        rests = [e for e in ledger.state.evidence(hypothesis.id, replaced=True) if e.id in verdict.because]
        words += [f"{e.id} is stale" for e in rests if ledger.stale(e)]
    return words


def ledger_text(ledger: View) -> str:
    """A ledger on a terminal."""
    state = ledger.state
    lines = [f"{ledger.name}: {ledger.title} ({len(state.entries)} entries)"]
    lines += [f"   {NOTHING}"] if state.empty else []
    for h in state.hypotheses:
        verdict = state.verdict(h.id)
        lines += ["", f"{h.id} {state.standing(h.id).upper()}: {h.claim}"]
        lines += [f"   predicts: {h.prediction}", f"   threshold: {h.threshold}"]
        lines += [
            f"   {a.id}: {a.field} was {a.was!r}" + (f", changed after {', '.join(a.after)}" if a.after else "")
            for a in state.amendments(h.id)
        ]
        lines += [_evidence_text(ledger, e) for e in state.evidence(h.id)]
        if verdict is not None:
            lines.append(f"   {verdict.id} because of {', '.join(verdict.because)}: {verdict.reason}")
        lines += [f"   look again: {word}" for word in doubts(ledger, h)]
    loose = [e for e in state.evidence() if not e.on]
    lines += ["", "on no hypothesis", *(_evidence_text(ledger, e) for e in loose)] if loose else []
    return "\n".join(lines)


def _evidence_text(ledger: View, e: Evidence) -> str:
    stale = "  STALE" if ledger.stale(e) else ""
    note = f"\n      {e.note}" if e.note else ""
    return f"   {e.id} {e.bearing}: {e.title}: {e.summary}{_where(e)}{stale}{note}"


def ledger_html(ledger: View) -> str:
    """A ledger in a notebook: a row a hypothesis, with its evidence and what came of it."""
    state = ledger.state
    head = "".join(f"<th scope='col' {_CELL}>{name}</th>" for name in ("", "hypothesis", "evidence", "verdict"))
    rows = [_row(ledger, h) for h in state.hypotheses]
    loose = [e for e in state.evidence() if not e.on]
    if loose:
        items = _items(ledger, loose)
        rows.append(
            f"<tr><td {_CELL}></td><td {_CELL}><i>on no hypothesis</i></td>"
            f"<td {_CELL}>{items}</td><td {_CELL}></td></tr>"
        )
    empty = (
        "" if rows else "<p>No hypothesis yet: <code>ledger.hypothesis(claim, prediction=..., threshold=...)</code></p>"
    )
    empty += f"<p>{escape(NOTHING)}</p>" if state.empty else ""
    return (
        f"<div><b>{escape(ledger.title)}</b> <small>ledger <code>{escape(ledger.name)}</code>, "
        f"{len(state.entries)} entries, head <code>{ledger.head[:12]}</code></small>{empty}"
        f"<table style='border-collapse:collapse'><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(ledger: View, h: Hypothesis) -> str:
    state = ledger.state
    verdict = state.verdict(h.id)
    said = (
        f"<br><small>{verdict.id}, because of {', '.join(verdict.because)}: {escape(verdict.reason)}</small>"
        if verdict
        else ""
    )
    again = "".join(f"<br><small><b>look again:</b> {escape(word)}</small>" for word in doubts(ledger, h))
    amended = "".join(
        f"<br><small>{a.id}: the {a.field} was <i>{escape(a.was)}</i>"
        + (f", changed after {', '.join(a.after)}" if a.after else "")
        + "</small>"
        for a in state.amendments(h.id)
    )
    claim = (
        f"{escape(h.claim)}<br><small><b>predicts</b> {escape(h.prediction)}<br>"
        f"<b>threshold</b> {escape(h.threshold)}</small>{amended}"
    )
    cells = [f"<b>{h.id}</b>", claim, _items(ledger, state.evidence(h.id)), badge(state.standing(h.id)) + said + again]
    return "<tr>" + "".join(f"<td {_CELL}>{cell}</td>" for cell in cells) + "</tr>"


def _items(ledger: View, evidence: Iterable[Evidence]) -> str:
    return "<br>".join(
        f"<b>{e.id}</b> {SIGNS[e.bearing]} {e.bearing}: {escape(e.title)} <small>{escape(e.summary)}{escape(_where(e))}"
        + (f"<br>{escape(e.note)}" if e.note else "")
        + (" <b>stale: its files changed</b>" if ledger.stale(e) else "")
        + "</small>"
        for e in evidence
    )


def _where(e: Evidence) -> str:
    parts = [f"n = {e.n:,} {e.unit or ''}".strip() if e.n is not None else "", f"run {e.run}" if e.run else ""]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""


def badge(standing: str) -> str:
    """A standing as a word with a frame."""
    colour = _COLOURS[standing]
    return f"<span style='border:1px solid {colour};border-left-width:6px;padding:0 .4em'>{standing}</span>"


def hypothesis_html(h: Hypothesis) -> str:
    """One line under the cell that stated it."""
    return (
        f"<div><b>{h.id}</b> {escape(h.claim)}<br><small><b>predicts</b> {escape(h.prediction)}; "
        f"<b>threshold</b> {escape(h.threshold)}</small></div>"
    )


def evidence_html(e: Evidence) -> str:
    """One line under the cell that kept it."""
    on = f"{e.bearing} {', '.join(e.on)}" if e.on else "on no hypothesis yet"
    took = f", in the place of {e.replaces}" if e.replaces else ""
    files = f", {len(e.files)} files hashed" if e.files else ""
    note = f"<br>{escape(e.note)}" if e.note else ""
    said = f"{escape(e.summary)}{escape(_where(e))}{files}{took}{note}"
    return f"<div><b>{e.id}</b> {on}: {escape(e.title)}<br><small>{said}</small></div>"


def verdict_html(v: Verdict) -> str:
    """One line under the cell that gave it."""
    because = ", ".join(v.because)
    return f"<div><b>{v.id}</b> {v.hypothesis} {badge(v.outcome)} because of {because}: {escape(v.reason)}</div>"
