"""A finding, and the codes that hold of a capture as such: what it lacks, and what is broken in it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helpers.tensors.capture_info import Info
from helpers.tensors.dumps import Dump
from helpers.tensors.health import Health

#: Every code of a diagnosis; docs/errors/findings/<code>.md explains each.
Code = Literal[
    "slot-embedding",
    "slot-offset",
    "slot-permuted",
    "slot-duplicate",
    "slot-count",
    "slot-wrong",
    "slot-unmatched",
    "fc-order",
    "token-shift",
    "rows-missing",
    "tokens-differ",
    "rank-partial-sum",
    "rank-token-shard",
    "rank-feature-shard",
    "residual-omitted",
    "final-norm-applied",
    "scaled",
    "rotated",
    "stale-rows",
    "non-finite",
    "captured-without-graphs",
    "features-match",
]


class Finding(BaseModel):
    """One coded fact of a diagnosis."""

    model_config = ConfigDict(frozen=True)

    code: Code
    severity: Literal["error", "warning", "info"]
    slot: int | None = None
    summary: str
    evidence: dict[str, Any] = Field(default_factory=dict)


class Undecided(BaseModel):
    """A code about which nothing is said, and why: what was not given, or does not suffice."""

    model_config = ConfigDict(frozen=True)

    code: Code
    why: str


def error(code: Code, slot: int | None, summary: str, **evidence: Any) -> Finding:
    return Finding(code=code, severity="error", slot=slot, summary=summary, evidence=evidence)


def non_finite(health: Health) -> list[Finding]:
    """NaN or infinity, by tensor: how many rows, and the first of them."""
    counts = {name: len(set(rows)) for name, rows in sorted(health.non_finite.items())}
    if not counts:
        return []
    first = {name: sorted(set(rows))[:8] for name, rows in sorted(health.non_finite.items())}
    where = ", ".join(f"{count} rows of {name}" for name, count in counts.items())
    summary = f"NaN or infinity in {where}; these rows were left out"
    return [error("non-finite", None, summary, rows=counts, first_rows=first)]


def stale_rows(health: Health, slots: int, trained: int) -> list[Finding]:
    """Rows that are all zero, or the same for different tokens, by slot and side."""
    findings = []
    for name in [f"feed[{i}]" for i in range(slots)] + [f"trained[{i}]" for i in range(trained)]:
        zero, repeated = len(set(health.zero.get(name, []))), len(health.repeated(name))
        if zero or repeated:
            side, slot = ("served" if name.startswith("feed") else "trained"), int(name.split("[")[1][:-1])
            rows = health.stale(name)
            summary = f"{repeated} {side} rows of slot {slot} are those of other tokens as well, {zero} are all zero"
            evidence = {"side": side, "repeated": repeated, "zero": zero, "rows": len(rows), "first_rows": rows[:8]}
            findings.append(error("stale-rows", slot, summary, **evidence))
    return findings


def without_graphs(info: Info, run_graphs: bool | None) -> list[Finding]:
    """Hooks see eager passes only: what the graphs of the run in question tap was not seen.

    Args:
        run_graphs: whether that run uses CUDA graphs; None takes what the capture says of its profile.
    """
    captured, run = bool(info.launch.get("cuda_graph")), uses_graphs(info, run_graphs)
    if captured:
        summary = "this server replays CUDA graphs, in which no hook is called: what is tapped there was not seen"
    elif run:
        summary = (
            "the run in question uses CUDA graphs, and this capture was taken without them: what graphs tap was not "
            "seen; compare acceptance under both"
        )
    else:
        return []
    evidence = {"captured_with_graphs": captured, "run_uses_graphs": run}
    return [Finding(code="captured-without-graphs", severity="warning", summary=summary, evidence=evidence)]


def uses_graphs(info: Info, run_graphs: bool | None) -> bool | None:
    """Whether the run in question uses CUDA graphs; None where nobody has said."""
    if run_graphs is not None:
        return run_graphs
    said = info.without_capture.get("cuda_graph")
    return said if isinstance(said, bool) else (True if info.launch.get("cuda_graph") is True else None)


def slot_count(width: int | None, hidden: int, dump: Dump, fc_width: int | None) -> list[Finding]:
    """Whether feed, dump and fc agree on the number of slots."""
    if width is None:
        return []
    trained = dump.slots
    served = width // hidden if width % hidden == 0 else None
    fc = None if fc_width is None else fc_width // hidden
    evidence: dict[str, Any] = {
        "feed_width": width,
        "hidden_size": hidden,
        "served": served,
        "trained": trained,
        "fc": fc,
    }
    evidence |= {"dump_warnings": list(dump.warnings)} if dump.warnings else {}
    if served is None:
        return [error("slot-count", None, f"the feed is {width} wide, no multiple of {hidden}", **evidence)]
    if served != trained or (fc is not None and fc != served):
        takes = f", and fc takes {fc}" if fc is not None else ""
        summary = f"{served} slots are fed, {trained} were trained{takes}"
        return [error("slot-count", None, summary, **evidence)]
    return []
