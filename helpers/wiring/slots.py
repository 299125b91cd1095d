"""The findings about slots: each code of design.md that holds, none that is guessed."""

from __future__ import annotations

from dataclasses import replace

from helpers.tensors.dumps import Dump
from helpers.tensors.statistics import agreed_factor
from helpers.wiring.comparison import Match, SlotComparison
from helpers.wiring.explaining import MAX_SCALE_OFF, Bench, Held, Label, Reading, explain, finite, norm_fit
from helpers.wiring.features import FEW, Aligned
from helpers.wiring.findings import Code, Finding, error

# Two sides that are looked at only from here on are apart by no more than MAX_SCALE_OFF where neither was.
LOOKED_AT = MAX_SCALE_OFF / 2
CODES: dict[str, Code] = {"own-output": "residual-omitted", "normed": "final-norm-applied", "rotated": "rotated"}
HOW = {
    "own-output": "is what a layer puts out by itself, without the residual that it is added to",
    "normed": "was taken after an RMS norm",
    "rotated": "has its tap's lengths and inner products, in other directions",
}


def say(label: Label) -> str:
    """A label in words."""
    if label == 0:
        return "the embedding (boundary 0)"
    if isinstance(label, tuple):
        return f"the tap of trained slot {label[1]}"
    return f"boundary {label}" if isinstance(label, int) else "an unknown tap"


def read_slots(compared: SlotComparison, aligned: Aligned, dump: Dump) -> tuple[list[Reading], list[Reading]]:
    """What each slot is, served and trained, in terms that can be compared."""
    bench = Bench(aligned, dump)
    trained = []
    for j, match in enumerate(compared.trained):
        found = plain(match)
        if found is not None and found.scale and abs(found.scale - 1) > LOOKED_AT:
            found = looked_at(bench, found, j, "trained")
        found = found or explain(bench, bench.trained(j), "trained")
        trained.append(found if found is not None and found.label is not None else Reading(("slot", j)))
    served = []
    for i, match in enumerate(compared.served):
        found = plain(match)
        if found is not None and abs(found.scale - 1) > LOOKED_AT:
            found = looked_at(bench, found, i, "served")
        twin = compared.same_as_trained(i) if found is None else None
        if twin is not None:
            of = trained[twin]
            found = Reading(of.label, of.kind, of.shift, compared.statistics.scale(i, compared.served_slots + twin))
            if abs(found.scale - 1) > LOOKED_AT:
                found = looked_at(bench, found, i, "served", twin)
            found = replace(found, scale=found.scale * of.scale)
        if found is None and aligned.view.kinds.get("feed") != "partial-sum":
            found = explain(bench, bench.served(i), "served")
            if found is not None and isinstance(found.label, tuple):  # the same in the trained slot's own terms
                own = trained[found.label[1]]
                found = Reading(own.label, found.kind, found.shift + own.shift, found.scale * own.scale, found.evidence)
        served.append(found or Reading(None, "unknown"))
    return served, trained


def plain(match: Match | None) -> Reading | None:
    return None if match is None or match.boundary is None else Reading(match.boundary, "plain", 0, match.scale)


def looked_at(bench: Bench, found: Reading, slot: int, side: str, twin: int | None = None) -> Reading:
    """A tap that seems to have a factor, with the one that it has: none, where it is but a few channels' or tokens'."""
    if not bench.tokens or (twin is None and not isinstance(found.label, int)):
        return found
    x = (bench.served(slot) if side == "served" else bench.trained(slot))(0)
    read = bench.trained(twin) if twin is not None else bench.tap(int(str(found.label)), true=side == "trained")
    x, t = finite(x, read(0))
    if len(x) < FEW:
        return found
    if abs(found.scale - 1) > MAX_SCALE_OFF:
        # A tap whose lengths hardly differ looks scaled when it is normed: whichever leaves less.
        fit = norm_fit(x, t)
        if fit.left <= min(0.05, 0.5 * Held(x).measure(t).residue):
            return Reading(found.label, "normed", 0, 1.0, fit.evidence(bench.aligned.taps.target))
    return replace(found, scale=agreed_factor(x, t, MAX_SCALE_OFF))


def slot_findings(compared: SlotComparison, served: list[Reading], trained: list[Reading]) -> list[Finding]:
    """What holds of the slots, of which both sides have as many."""
    s, t = [reading.label for reading in served], [reading.label for reading in trained]
    slots = range(len(served))
    findings = kinds(served, trained) + shifts(served, trained)
    embedded = [i for i in slots if s[i] == 0 and t[i] != 0 and (isinstance(t[i], int) or 0 in compared.ladder)]
    findings += [
        error("slot-embedding", i, f"slot {i} is fed {say(0)}; it was trained on {say(t[i])}", trained=as_json(t[i]))
        for i in embedded
    ]
    covered = set(embedded)
    wired = offset(s, t) + permuted(s, t)
    if wired:
        covered |= set(slots)
    doubles = duplicates(s, t)
    for finding in doubles:
        covered |= set(finding.evidence["slots"])
    findings += wired + doubles
    for i in slots:
        if i not in covered and s[i] is not None and decided(s[i], t[i]) and s[i] != t[i]:
            twin = next((j for j in slots if t[j] == s[i]), None)
            also = f", which slot {twin} was trained on" if twin is not None else ""
            extra = {} if twin is None else {"equals_trained_slot": twin}
            summary = f"slot {i} is fed {say(s[i])}{also}; it was trained on {say(t[i])}"
            evidence = {"served": as_json(s[i]), "trained": as_json(t[i]), **extra}
            findings.append(error("slot-wrong", i, summary, **evidence))
    findings += unmatched(compared, served) + scaled(served, trained)
    if not findings and all(a.label is not None and a.label == b.label for a, b in zip(served, trained, strict=True)):
        summary = f"the {len(served)} slots are fed what they were trained on; look elsewhere"
        held = {"slots": [as_json(label) for label in s]}
        findings.append(Finding(code="features-match", severity="info", summary=summary, evidence=held))
    return findings


def as_json(label: Label) -> int | str | None:
    return f"slot {label[1]}" if isinstance(label, tuple) else label


def decided(served: Label, trained: Label) -> bool:
    """Whether two labels can be told to differ: both boundaries, or both trained slots."""
    return type(served) is type(trained)


def kinds(served: list[Reading], trained: list[Reading]) -> list[Finding]:
    """Slots that are no plain tap on one side, and are one on the other."""
    findings = []
    for i, pair in enumerate(zip(served, trained, strict=True)):
        if pair[0].kind == pair[1].kind:
            continue
        for side, reading in zip(("served", "trained"), pair, strict=True):
            if reading.kind in CODES:
                evidence = {"side": side, "of": as_json(reading.label), **reading.evidence}
                summary = f"slot {i}, as it was {side}, {HOW[reading.kind]} ({say(reading.label)})"
                findings.append(error(CODES[reading.kind], i, summary, **evidence))
    return findings


def shifts(served: list[Reading], trained: list[Reading]) -> list[Finding]:
    """Slots whose rows stand one or two tokens off."""
    known = [s.label is not None for s in served]
    off = [s.shift - t.shift if k else 0 for s, t, k in zip(served, trained, known, strict=True)]
    if not any(off):
        return []
    # Whichever side was found on other rows than its tap has the scores at all shifts.
    evidence = [
        {"side": side, **one.evidence} if one.shift else {}
        for s, t in zip(served, trained, strict=True)
        for side, one in [("served", s) if s.shift or not t.shift else ("trained", t)]
    ]
    if len(set(off)) == 1:
        summary = f"served row t is trained row t{off[0]:+d}, in every slot"
        return [error("token-shift", None, summary, shift=off[0], slots=evidence)]
    return [
        error("token-shift", i, f"served row t of slot {i} is trained row t{step:+d}", shift=step, **evidence[i])
        for i, step in enumerate(off)
        if step
    ]


def offset(served: list[Label], trained: list[Label]) -> list[Finding]:
    pairs = [(s, t) for s, t in zip(served, trained, strict=True) if isinstance(s, int) and isinstance(t, int)]
    steps = {s - t for s, t in pairs}
    if len(pairs) < len(served) or len(steps) != 1 or steps == {0}:
        return []
    step = steps.pop()
    summary = (
        f"every slot is fed {abs(step)} boundar{'y' if abs(step) == 1 else 'ies'} {'later' if step > 0 else 'earlier'}"
    )
    summary += f" than it was trained: the boundaries {served} where training had {trained}"
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


def unmatched(compared: SlotComparison, served: list[Reading]) -> list[Finding]:
    """Slots that are no known tap in any way, where every boundary is known."""
    findings = []
    for i, (match, reading) in enumerate(zip(compared.served, served, strict=True)):
        if compared.complete and match is not None and reading.label is None and reading.kind == "unknown":
            summary = (
                f"slot {i} is no boundary of this model: the nearest is {say(match.nearest)}, with {match.score:.3f}"
            )
            findings.append(error("slot-unmatched", i, summary, **match.evidence()))
    return findings


def scaled(served: list[Reading], trained: list[Reading]) -> list[Finding]:
    """Slots that are their trained tap, times a constant."""
    findings = []
    for i, (s, t) in enumerate(zip(served, trained, strict=True)):
        if s.label is None or s.label != t.label or (s.kind, t.kind) != ("plain", "plain"):
            continue
        scale = s.scale / t.scale
        if abs(scale - 1) > MAX_SCALE_OFF:
            findings.append(error("scaled", i, f"slot {i} is its trained tap times {scale:.4g}", scale=round(scale, 6)))
    return findings
