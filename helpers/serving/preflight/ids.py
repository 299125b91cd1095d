"""The layer ids: where they stand in the config, whose they are, and what they tap."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found

#: Trap of the boundary resolver -> code and severity here.
_TRAPS = {
    "never-fires": ("ids-never-fire", "error"),
    "fails-at-layer": ("ids-never-fire", "error"),
    "out-of-reach": ("ids-out-of-reach", "error"),
    "collapses": ("ids-duplicate", "error"),
    "reordered": ("ids-reordered", "warning"),
    "wraps-around": ("ids-wrap-around", "error"),
    "residual-omitted": ("ids-residual-omitted", "error"),
    "refused": ("ids-refused", "error"),
}


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on the ids in force."""
    if not facts.eagle3:
        return
    yield from _place(facts)
    yield from _owner(facts)
    yield from _traps(facts)
    yield from _version(facts)


def _place(facts: Facts) -> Iterator[Finding]:
    stray, own = facts.stray_ids, facts.own_ids
    if stray is None or stray == own:
        return
    instead = f"those of eagle_config, {list(own)}" if own else "its defaults"
    if facts.profile.aux_layer_ids is not None:
        instead = f"the profile's, {list(facts.profile.aux_layer_ids)}"
    yield found(
        "ids-at-top-level",
        "warning" if facts.profile.aux_layer_ids == stray else "error",
        f"the draft's config.json has the ids {list(stray)} at its top level, where SGLang does not look: it takes "
        f"{instead}",
        ids=list(stray),
        nested=list(own) if own else None,
        fix="move them into eagle_config: workbook patch BOX ids DRAFT --ids=" + ",".join(map(str, stray)),
    )


def _owner(facts: Facts) -> Iterator[Finding]:
    wanted, own = facts.profile.aux_layer_ids, facts.own_ids
    if wanted is not None and own is not None and wanted != own:
        yield found(
            "ids-overridden",
            "warning",
            f"the profile feeds the drafter the ids {list(wanted)}, its own config says {list(own)}",
            profile=list(wanted),
            draft=list(own),
        )


def _traps(facts: Facts) -> Iterator[Finding]:
    taps = facts.taps
    for trap in taps.traps if taps and facts.ids is not None else ():
        code, severity = _TRAPS.get(trap.code, ("ids-refused", "error"))
        yield found(
            code,
            "warning" if severity == "warning" else "error",
            trap.summary,
            *(taps.lines if taps else ()),
            ids=list(trap.ids),
            boundaries=list(taps.boundaries) if taps else [],
        )


def _version(facts: Facts) -> Iterator[Finding]:
    """Explicit ids mean the boundary id + 1 in every model of 0.5.9; later versions take them as they are in some."""
    version, wanted, taps = facts.source.version, facts.profile.engine_version, facts.taps
    ids = [i for i in facts.ids or () if i >= 0]
    before = sorted({i + 1 for i in ids})
    moved = bool(taps and not taps.unread and taps.boundaries and ids and sorted(taps.boundaries) != before)
    moved = moved and len(ids) == len(facts.ids or ())
    if version is not None and version != wanted:
        both = f"the profile is for sglang {wanted}, the source is {version}"
        if moved and wanted == "0.5.9":
            yield _moved(facts, "error", f"{both}, and there {list(ids)} tap other boundaries", before)
        else:
            yield found("engine-version", "error", both, profile=wanted, source=version)
    elif moved and facts.profile.engine_base == "0.5.9":
        said = "engine_base says that the rules of sglang 0.5.9 hold here, and these ids tap other boundaries"
        yield _moved(facts, "error", said, before)
    elif moved and version not in (None, "0.5.9") and not (taps and taps.traps):
        said = f"sglang {version} takes these ids as they are; 0.5.9 added one"
        yield _moved(facts, "info", said, before)


def _moved(facts: Facts, severity: str, said: str, before: list[int]) -> Finding:
    assert facts.taps is not None
    here = list(facts.taps.boundaries)
    offset = before[0] - here[0]
    same = ",".join(str(i + offset) for i in facts.ids or ())
    return found(
        "version-moves-ids",
        "error" if severity == "error" else "info",
        f"{said}: boundaries {here} instead of {before}. Chosen on 0.5.9 they are {same} here",
        *facts.taps.lines,
        ids=list(facts.ids or ()),
        boundaries=here,
        boundaries_on_0_5_9=before,
        fix=f"--ids={same} for what 0.5.9 tapped",
    )
