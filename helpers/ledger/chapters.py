"""The chapters of a report, each made of the ledger alone: summary, cause, hypotheses, evidence, figures, timeline."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from helpers.ledger.legends import legend
from helpers.ledger.records import Amendment, AnyEntry, Evidence, Hypothesis, Note, Opened, Verdict
from helpers.ledger.report import Section
from helpers.ledger.results.tables import FIGURE, TABLE
from helpers.ledger.showing import doubts
from helpers.ledger.state import NOTHING

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from helpers.ledger.view import View

COUNTED = ("measurement", "difference")
SHOWN_ROWS = 30
_FIGURES = re.compile(r"[-+]?\d+\.\d+")
ROLES = ("Symptom", "Cause", "Effect of the fix")


def summary(ledger: View) -> list[str]:
    """The answer first: the cause and how it is known, the fix, what it gave, what was ruled out."""
    state = ledger.state
    if state.empty:
        return [sentence(NOTHING[0].upper() + NOTHING[1:])]
    lines = [note.text for note in state.notes("conclusion")]
    told = bool(lines)  # a conclusion has the cause in full; the reason of a verdict would be the same again
    confirmed = _with(ledger, "confirmed")
    rates = counted(ledger)
    for h, v in confirmed:
        silent = told and role(h) == "Cause"
        if not silent:
            rates = [e for e in rates if e.id not in v.because or e.note or not says(v.reason, e.summary)]
        again = silent or any(e.id in v.because and says(told_of(e), v.reason) for e in rates)
        reason = "" if again else f" {capital(sentence(v.reason))}"
        lines.append(f"Confirmed, {h.id}: {sentence(h.claim)}{reason} Evidence: {', '.join(v.because)}.")
    if not any(role(h) == "Cause" for h, _ in confirmed):
        lines.append("No hypothesis about the cause is confirmed.")
    lines += [f"Fix: {sentence(text)}" for text in fixes(ledger)]
    # A speed without speculation, alone, answers nothing that was asked; it stands in the evidence.
    rates = [e for e in rates if e.source != "measurement" or e.values.get("accept_rate") is not None]
    lines += [capital(f"{e.title}: {e.summary}{where(e)} {capital(e.note)}".strip()) for e in rates[:6]]
    refuted = _with(ledger, "refuted")
    if refuted:
        lines.append("Ruled out: " + "; ".join(f"{h.claim} ({h.id}, {', '.join(v.because)})" for h, v in refuted) + ".")
    undecided = [h for h in state.hypotheses if state.standing(h.id) in ("open", "inconclusive")]
    if undecided:
        lines.append("Not decided: " + "; ".join(f"{h.claim} ({h.id})" for h in undecided) + ".")
    return lines


def cause(ledger: View) -> Section:
    """Root cause, trigger and fix, each told apart."""
    text = []
    for h, v in sorted(_with(ledger, "confirmed"), key=lambda pair: ROLES.index(role(pair[0]))):
        how = ", in a replay and not served" if replayed_only(ledger, v) else ""
        text.append(f"{role(h)}{how}: {h.claim} ({h.id}; {v.id}, because of {', '.join(v.because)}).")
    if text:
        text.append("The reasons stand with the verdicts, in the table of hypotheses.")
    if not any(line.startswith("Cause") for line in text):
        text = ["Cause: none is confirmed yet.", *text]
    told = [f"Trigger: {sentence(note.text)}" for note in ledger.state.notes("trigger")]
    text += told or ["Trigger: what set it off is not recorded."]
    return Section("Cause and trigger", [*text, *(f"Fix: {sentence(fix)}" for fix in fixes(ledger))])


def role(h: Hypothesis) -> str:
    """What a hypothesis is about: keys ``symptom`` and ``symptom-*`` say what is seen, ``fix`` and ``fix-*`` what mends
    it, all others what causes it."""
    return {"symptom": "Symptom", "fix": "Effect of the fix"}.get(h.key.partition("-")[0], "Cause")


def replayed_only(ledger: View, verdict: Verdict) -> bool:
    """Whether all that a verdict rests on are replays of the drafter over captured texts: no server gave its rates."""
    rests = [e for e in ledger.state.evidence(replaced=True) if e.id in verdict.because]
    return all(e.source == "replay" or "replayed" in e.values for e in rests)


def fixes(ledger: View) -> list[str]:
    """What mends it: as somebody wrote it down, else as the newest diagnosis names it."""
    told = [note.text for note in ledger.state.notes("fix")]
    named = [
        e.values["fix"]["note"]
        for e in ledger.state.evidence()
        if e.source == "diagnosis" and e.values.get("verdict") == "mismatch" and e.values.get("fix")
    ]
    return told or named[-1:]


def hypotheses(ledger: View) -> Section:
    """All of them; what was refuted stays, for it is what a reader would try next."""
    state = ledger.state
    rows = []
    for h in state.hypotheses:
        verdict = state.verdict(h.id)
        evidence = ", ".join(f"{e.id} {e.bearing}" for e in state.evidence(h.id))
        rows.append(
            {
                "id": h.id,
                "hypothesis": h.claim,
                "predicted": f"{sentence(h.prediction)} Threshold: {h.threshold}",
                "evidence": evidence or "none",
                "verdict": state.standing(h.id),
                "because": f"{', '.join(verdict.because)}: {verdict.reason}" if verdict else "-",
            }
        )
    changed = [
        f"{a.id}: the {a.field} of {a.hypothesis} was `{a.was}` and became `{a.now}`"
        + (f" after {', '.join(a.after)} had been seen" if a.after else " before there was evidence")
        + (f": {a.reason}" if a.reason else "")
        + "."
        for h in state.hypotheses
        for a in state.amendments(h.id)
    ]
    doubtful = [f"{h.id} is to be looked at again: {word}." for h in state.hypotheses for word in doubts(ledger, h)]
    return Section("Hypotheses", [*changed, *doubtful], rows)


def evidence(ledger: View) -> Section:
    """Every piece that holds, in order."""
    rows = [
        {
            "id": e.id,
            "bears on": f"{e.bearing} {', '.join(e.on)}" if e.on else "-",
            "what": e.title,
            "figures": told_of(e),
            "from": origin(e),
        }
        for e in ledger.state.evidence()
    ]
    return Section("Evidence", [], rows)


def origin(e: Evidence) -> str:
    """Run, n and patches: what a reader asks of a figure, in one cell."""
    parts = [f"n = {e.n:,} {e.unit or ''}".strip() if e.n is not None else "", f"run {e.run}" if e.run else ""]
    parts.append(f"patches {', '.join(e.patches)}" if e.patches else "")
    return "; ".join(part for part in parts if part) or "-"


def told_of(e: Evidence) -> str:
    """What a piece of evidence says, and its note as a sentence of its own."""
    summary = brief_hashes(e.summary)
    return f"{sentence(summary)} {capital(e.note)}" if e.note else summary


def says(text: str, other: str) -> bool:
    """Whether one text has every figure of another, which has some: telling both would tell it twice.

    >>> says("0.616 [0.510, 0.714], +36.8 points", "+36.8 points"), says("yes", "no")
    (True, False)
    """
    figures = _FIGURES.findall(other)
    return bool(figures) and set(figures) <= set(_FIGURES.findall(text))


def brief_hashes(text: str) -> str:
    """Long hashes by their first digits, as captions have them; report.json has them whole.

    >>> brief_hashes("a.py@sha256:" + "0123456789abcdef" * 4 + "#L3")
    'a.py@sha256:0123456789ab#L3'
    """
    return re.sub(r"\b(sha256:)?([0-9a-f]{12})[0-9a-f]{52}\b", r"\1\2", text)


def counted(ledger: View) -> list[Evidence]:
    """Measured rates and differences; a rate that a difference names already is not told twice."""
    found = [e for e in ledger.state.evidence() if e.source in COUNTED]
    named = {e.values[side] for e in found if e.values.get("sides") for side in ("first", "second")}
    return [e for e in found if e.source != "measurement" or e.profile not in named]


def pictures(ledger: View) -> list[Section]:
    """A chapter for each figure and each table among the evidence."""
    found = []
    for e in ledger.state.evidence():
        figure, table = _figure(ledger, e), _table(ledger, e)
        if figure is not None or table:
            bears = f"{e.id} {e.bearing} {', '.join(e.on)}." if e.on else f"{e.id}."
            text = [legend(e.summary), f"{bears} {caption(e)}", e.note]
            found.append(Section(capital(e.title), [line for line in text if line], table, figure))
    return found


def caption(e: Evidence) -> str:
    """Where a figure comes from: run, capture, hash, n.

    An evidence file that the ledger made itself is named where there is no capture.
    """
    captured = next((f for f in e.files if f.path.endswith("capture.json")), None)
    file = captured or next((f for f in e.files if f.path.startswith("evidence/")), None)
    parts = [f"run {e.run}" if e.run else "", f"profile {e.profile} ({e.profile_hash})" if e.profile_hash else ""]
    if file is not None:
        name = f"capture {file.path.split('/')[-2]}" if captured else f"file {file.path}"
        parts.append(f"{name}, sha256 {file.sha256[:12]}")
    parts.append(f"n = {e.n:,} {e.unit or ''}".strip() if e.n is not None else "n is not stated")
    of = f"{e.seed_of} " if e.seed_of else ""
    parts.append(f"{of}seed {e.seed}" if e.seed is not None else "")
    return ", ".join(part for part in parts if part) + "."


def timeline(ledger: View) -> Section:
    """What was written when: facts, no judgement. Times are UTC; what was said stands in the chapters above."""
    rows = [
        {"time (UTC)": entry.at[:19].replace("T", " "), "id": entry.id, "what": _told(entry)}
        for entry in ledger.entries
        if not (isinstance(entry, Note) and entry.about == "title")
    ]
    return Section("Timeline", ["When each entry was written. What it says stands in the chapters above."], rows)


def sentence(text: str) -> str:
    """With a full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def capital(text: str) -> str:
    """With a capital where it begins with a word; a name (of a file, an option) stays as it is.

    >>> capital("accept rate of mended"), capital("embed_tokens is read"), capital("+36.8 points")
    ('Accept rate of mended', 'embed_tokens is read', '+36.8 points')
    """
    word = text.split(" ", 1)[0].rstrip(",:;.")
    return text[:1].upper() + text[1:] if word.isalpha() else text


def where(e: Evidence) -> str:
    """n and evidence id, in brackets."""
    n = f", n = {e.n:,} {e.unit or ''}".rstrip() if e.n is not None else ""
    return f" ({e.id}{n})."


def _with(ledger: View, outcome: str) -> list[tuple[Hypothesis, Verdict]]:
    state = ledger.state
    pairs = [(h, state.verdict(h.id)) for h in state.hypotheses]
    return [(h, v) for h, v in pairs if v is not None and v.outcome == outcome]


def _told(entry: AnyEntry) -> str:
    if isinstance(entry, Opened):
        return "the ledger was opened"
    if isinstance(entry, Hypothesis):
        return f"hypothesis: {entry.claim}"
    if isinstance(entry, Amendment):
        return f"{entry.field} of {entry.hypothesis} changed: {entry.reason}"
    if isinstance(entry, Evidence):
        took = f" (in the place of {entry.replaces})" if entry.replaces else ""
        return f"evidence: {entry.title}{took}"
    if isinstance(entry, Verdict):
        return f"verdict: {entry.hypothesis} {entry.outcome}, because of {', '.join(entry.because)}"
    return entry.text if entry.about == "fact" else f"{entry.about} written down"


def _figure(ledger: View, e: Evidence) -> go.Figure | None:
    """The figure that was kept; None where there is none, or its file is no longer what it was (the limits say so)."""
    content = _kept(ledger, e, FIGURE)
    if content is None:
        return None
    import plotly.graph_objects as go

    layout = content.get("layout", {})
    # A picture from an address would be asked for when the report is opened.
    layout["images"] = [i for i in layout.get("images") or [] if str(i.get("source", "")).startswith("data:")]
    return go.Figure({"data": content.get("data", []), "layout": layout})


def _table(ledger: View, e: Evidence) -> Sequence[dict[str, str]]:
    content = _kept(ledger, e, TABLE)
    if content is None:
        return ()
    columns = [str(column) for column in content["columns"]]
    return [{name: _cell(row.get(name)) for name in columns} for row in content["rows"][:SHOWN_ROWS]]


def _kept(ledger: View, e: Evidence, ending: str) -> Any:
    file = next((file for file in e.files if file.path.endswith(ending)), None)
    if file is None or ledger.stale(e, thorough=True):
        return None
    return json.loads(ledger.path(file).read_text(encoding="utf-8"))


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
