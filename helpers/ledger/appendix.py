"""The end of a report: configuration differences, limits, commands to reproduce, and how to check it all again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.ledger.files import place
from helpers.ledger.recipe import recipe
from helpers.ledger.report import Section

if TYPE_CHECKING:
    from helpers.ledger.view import View

COLUMNS = 6


def differences(ledger: View) -> Section:
    """The settings in which the configurations differ; what is the same everywhere is the first suspect of nobody."""
    found: dict[str, dict[str, Any]] = {}
    for e in ledger.state.evidence():
        for name, settings in e.config.items():
            found.setdefault(name, {}).update(_flat(settings))
    kinds = {"launch": {n: s for n, s in found.items() if n.startswith("launch of ")}}
    kinds["profile"] = {n: s for n, s in found.items() if n not in kinds["launch"]}
    rows: list[dict[str, str]] = []
    text = []
    names = [*kinds["profile"], *kinds["launch"]][:COLUMNS]
    for kind in ("profile", "launch"):
        group = {name: settings for name, settings in kinds[kind].items() if name in names}
        if len(group) < 2:
            continue
        keys = list(dict.fromkeys(key for settings in group.values() for key in settings))
        differing = [key for key in keys if len({_shown(s.get(key)) for s in group.values() if key in s}) > 1]
        rows += [{"setting": key, **{name: _shown(found[name].get(key)) for name in names}} for key in differing]
        same = len(keys) - len(differing)
        text.append(f"{', '.join(group)}: {len(differing)} settings differ, {same} are the same or known of one only.")
    if not text:
        text = ["Fewer than two configurations are among the evidence, so there is nothing to compare."]
    if len(found) > len(names):
        text.append(f"{len(found) - len(names)} more configurations are in report.json.")
    return Section("Configuration differences", text, rows)


def limits(ledger: View) -> Section:
    """What this investigation does not show: as it was written down, and what the ledger itself can tell."""
    state = ledger.state
    text = [note.text for note in state.notes("limit")]
    captures = [e for e in state.evidence() if e.source == "capture"]
    if captures and all(e.values.get("tp_size") == 1 for e in captures):
        text.append("All captures are of one rank: nothing is said about how ranks share the work.")
    if captures and not any(e.values.get("launch", {}).get("cuda_graph") for e in captures):
        text.append("All captures were made without CUDA graphs: what a graph would tap was not seen.")
    bare = [
        e.id for e in state.evidence() if e.n is None and e.source in ("measurement", "difference", "table", "values")
    ]
    if bare:
        text.append(f"How many observations stand behind {', '.join(bare)} is not stated.")
    rates = [e for e in state.evidence() if e.source == "measurement"]
    if rates and all(e.values.get("accept_rate") is not None for e in rates):
        text.append("No speed without speculation is among the evidence: whether speculation pays is not shown by it.")
    for e in state.evidence():
        changed = ledger.stale(e, thorough=True)
        if changed:
            names = ", ".join(file.path for file in changed)
            text.append(f"{e.id} is stale: {names} is gone or is not what it was; its figures cannot be re-checked.")
    late = [a for h in state.hypotheses for a in state.amendments(h.id) if a.after]
    text += [f"The {a.field} of {a.hypothesis} was changed after {', '.join(a.after)} had been seen." for a in late]
    waiting = [h.id for h in state.hypotheses if state.standing(h.id) == "open"]
    if waiting:
        text.append(f"No verdict was given on {', '.join(waiting)}.")
    return Section("Limits", text or ["None was written down."])


def commands(ledger: View) -> Section:
    """What to type to see the same; see `helpers.ledger.recipe`."""
    text = (
        "For a shell in a checkout of the workbook, from top to bottom. The variables say once where things lie: set "
        "them to where you have them. This report says `~`, `<box home>`, `<checkout>` and `<investigations>` for "
        "folders that it hides, and `***` for a name or an address. Where greedy decoding repeats itself, rates come "
        "out the same (in the lab to the last digit); speeds do not."
    )
    return Section("Commands to reproduce", [text], commands=recipe(ledger))


def files(ledger: View) -> Section:
    """The files behind the evidence, by their hashes."""
    seen = {file.path: (file, e.id) for e in ledger.state.evidence() for file in e.files}
    rows = [
        {"file": place(path, ledger.folder), "of": id, "bytes": f"{file.bytes:,}", "sha256": file.sha256[:16]}
        for path, (file, id) in list(seen.items())[:80]
    ]
    text = [
        f"Ledger `{ledger.name}`: {len(ledger.entries)} entries, each bound to the one before it; the last one is "
        f"`{ledger.head}`. Paths are relative to the investigation's folder; those that begin with `checkout:` to the "
        "workbook's."
    ]
    return Section("To check it again", text, rows)


def _flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level: ``speculation.num_steps``."""
    if not isinstance(settings, dict):
        return {prefix: settings}
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat.update(_flat(value, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if value == []:
        return "none"
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)
