"""The findings about slots: each code of design.md that holds, none that is guessed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helpers.wiring.comparison import SlotComparison

# A constant factor below this is what rounding and another engine's kernels do.
MAX_SCALE_OFF = 0.02


class Finding(BaseModel):
    """One coded fact of a diagnosis."""

    model_config = ConfigDict(frozen=True)

    code: str
    severity: Literal["error", "warning", "info"]
    slot: int | None = None
    summary: str
    evidence: dict[str, Any] = Field(default_factory=dict)


# A boundary's number, or ("slot", j) for a trained slot that is known only as itself; None where nothing is known.
Label = int | tuple[str, int] | None


def error(code: str, slot: int | None, summary: str, **evidence: Any) -> Finding:
    return Finding(code=code, severity="error", slot=slot, summary=summary, evidence=evidence)


def say(label: Label) -> str:
    """A label in words."""
    if label == 0:
        return "the embedding (boundary 0)"
    return f"boundary {label}" if isinstance(label, int) else "an unknown tap"


def slot_findings(compared: SlotComparison, *, complete: bool) -> list[Finding]:
    """What holds of the slots, of which both sides have as many. ``complete``: the ladder has all boundaries."""
    served, trained = labels(compared)
    slots = range(len(served))
    findings = [
        error("slot-embedding", i, f"slot {i} is fed {say(0)}; it was trained on {say(trained[i])}", trained=trained[i])
        for i in slots
        if served[i] == 0 and isinstance(trained[i], int) and trained[i] != 0
    ]
    covered = {finding.slot for finding in findings}
    findings += offset(served, trained) + permuted(served, trained)
    if any(finding.code in ("slot-offset", "slot-permuted") for finding in findings):
        covered |= set(slots)
    doubles = duplicates(served, trained)
    for finding in doubles:
        covered |= set(finding.evidence["slots"])
    findings += doubles
    for i in slots:
        if i not in covered and served[i] is not None and decided(served[i], trained[i]) and served[i] != trained[i]:
            twin = next((j for j in slots if trained[j] == served[i]), None)
            also = f", which slot {twin} was trained on" if twin is not None else ""
            extra = {} if twin is None else {"equals_trained_slot": twin}
            summary = f"slot {i} is fed {say(served[i])}{also}; it was trained on {say(trained[i])}"
            findings.append(error("slot-wrong", i, summary, served=served[i], trained=trained[i], **extra))
    findings += unmatched(compared, served) if complete else []
    findings += scaled(compared, served, trained)
    if not findings and all(s is not None and s == t for s, t in zip(served, trained, strict=True)):
        summary = f"the {len(served)} slots are fed what they were trained on; look elsewhere"
        findings.append(Finding(code="features-match", severity="info", summary=summary, evidence={"slots": served}))
    return findings


def labels(compared: SlotComparison) -> tuple[list[Label], list[Label]]:
    """What each slot is, served and trained, in terms that can be compared."""
    trained: list[Label] = [
        match.boundary if match is not None and match.boundary is not None else ("slot", j)
        for j, match in enumerate(compared.trained)
    ]
    served: list[Label] = []
    for i, match in enumerate(compared.served):
        if match is not None and match.boundary is not None:
            served.append(match.boundary)
        else:
            twin = compared.same_as_trained(i)
            served.append(None if twin is None else trained[twin])
    return served, trained


def decided(served: Label, trained: Label) -> bool:
    """Whether two labels can be told to differ: both boundaries, or both trained slots."""
    return type(served) is type(trained)


def offset(served: list[Label], trained: list[Label]) -> list[Finding]:
    pairs = [(s, t) for s, t in zip(served, trained, strict=True) if isinstance(s, int) and isinstance(t, int)]
    steps = {s - t for s, t in pairs}
    if len(pairs) < len(served) or len(steps) != 1 or steps == {0}:
        return []
    step = steps.pop()
    summary = (
        f"every slot is fed {abs(step)} boundar{'y' if abs(step) == 1 else 'ies'} {'later' if step > 0 else 'earlier'}"
    )
    summary += f" than it was trained: {served} for {trained}"
    return [error("slot-offset", None, summary, offset=step, served=served, trained=trained)]


def permuted(served: list[Label], trained: list[Label]) -> list[Finding]:
    known = None not in served and len(set(trained)) == len(trained)
    if not known or set(served) != set(trained) or served == trained or len(set(served)) < len(served):
        return []
    order = [trained.index(label) for label in served]
    summary = f"the slots hold the trained taps in another order: served slot i is trained slot {order}[i]"
    return [error("slot-permuted", None, summary, order=order)]


def duplicates(served: list[Label], trained: list[Label]) -> list[Finding]:
    if len(set(trained)) < len(trained):
        return []
    findings = []
    for label in dict.fromkeys(served):
        slots = [i for i, other in enumerate(served) if other == label]
        if label is not None and len(slots) > 1:
            wrong = next(i for i in slots if trained[i] != label)
            summary = f"slots {slots} all hold {say(label)}; training had different taps there"
            findings.append(error("slot-duplicate", wrong, summary, slots=slots, served=label))
    return findings


def unmatched(compared: SlotComparison, served: list[Label]) -> list[Finding]:
    findings = []
    for i, label in enumerate(served):
        match = compared.served[i]
        if label is None and match is not None:
            summary = (
                f"slot {i} is no boundary of this model: the nearest is {say(match.nearest)}, with {match.score:.3f}"
            )
            findings.append(error("slot-unmatched", i, summary, **match.evidence()))
    return findings


def scaled(compared: SlotComparison, served: list[Label], trained: list[Label]) -> list[Finding]:
    findings = []
    for i, (s, t) in enumerate(zip(served, trained, strict=True)):
        if s is None or s != t:
            continue
        scale = compared.statistics.scale(i, compared.served_slots + i)
        if abs(scale - 1) > MAX_SCALE_OFF:
            summary = f"slot {i} is its trained tap times {scale:.4g}"
            findings.append(error("scaled", i, summary, scale=round(scale, 6)))
    return findings


def non_finite(counts: dict[str, int]) -> list[Finding]:
    """NaN or infinity, by tensor."""
    if not counts:
        return []
    where = ", ".join(f"{count} rows of {name}" for name, count in counts.items())
    return [error("non-finite", None, f"NaN or infinity in {where}; these rows were left out", rows=counts)]


def without_graphs(launch: dict[str, Any]) -> list[Finding]:
    """A capture of a server that uses CUDA graphs: hooks see eager passes only, so what graphs tap was not seen."""
    if launch.get("cuda_graph") is not True:
        return []
    summary = "this server replays CUDA graphs, in which no hook is called: what is tapped there was not seen"
    return [Finding(code="captured-without-graphs", severity="warning", summary=summary, evidence={"cuda_graph": True})]


def slot_count(width: int | None, hidden: int, trained: int, fc_width: int | None) -> list[Finding]:
    """Whether feed, dump and fc agree on the number of slots."""
    if width is None:
        return []
    served = width // hidden if width % hidden == 0 else None
    fc = None if fc_width is None else fc_width // hidden
    evidence = {"feed_width": width, "hidden_size": hidden, "served": served, "trained": trained, "fc": fc}
    if served is None:
        return [error("slot-count", None, f"the feed is {width} wide, no multiple of {hidden}", **evidence)]
    if served != trained or (fc is not None and fc != served):
        takes = f", and fc takes {fc}" if fc is not None else ""
        summary = f"{served} slots are fed, {trained} were trained{takes}"
        return [error("slot-count", None, summary, **evidence)]
    return []
