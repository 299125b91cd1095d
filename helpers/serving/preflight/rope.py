"""Positions: the drafter's rotary embedding and its range against the target's. Flags, since training decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found

_SHAPE = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor")


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on positions."""
    target, draft = facts.target, facts.draft
    if not facts.speculates or target is None or draft is None or not target.config or not draft.config:
        return
    ours, theirs = _rope(draft.text_config), _rope(target.text_config)
    if ours["theta"] is not None and theirs["theta"] is not None and ours["theta"] != theirs["theta"]:
        yield found(
            "rope-differs",
            "warning",
            f"the drafter's rope_theta is {ours['theta']:g}, the target's {theirs['theta']:g}: right only if it was "
            "trained so",
            draft=ours["theta"],
            target=theirs["theta"],
        )
    if ours["scaling"] is not None and ours["scaling"] != theirs["scaling"]:
        yield found(
            "rope-differs",
            "warning",
            f"the drafter's rope scaling is {ours['scaling']}, the target's {theirs['scaling']}: right only if it was "
            "trained so",
            draft=ours["scaling"],
            target=theirs["scaling"],
        )
    reach, served = draft.size("max_position_embeddings"), _served(facts)
    if reach is not None and served is not None and reach < served:
        yield found(
            "max-position",
            "info",
            f"the drafter was made for {reach} positions, and {served} are served: SGLang stretches it to that with a "
            "warning in the log, and acceptance falls beyond",
            draft=reach,
            served=served,
        )


def _served(facts: Facts) -> int | None:
    given = facts.settings["context_length"]
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return facts.target.size("max_position_embeddings") if facts.target else None


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """theta (None where it is not stated) and the scaling, in the old form and that of transformers 5."""
    parameters = config.get("rope_parameters")
    section = parameters if isinstance(parameters, dict) else config.get("rope_scaling")
    theta = config.get("rope_theta")
    scaling: dict[str, Any] | None = None
    if isinstance(section, dict):
        theta = section.get("rope_theta", theta)
        kind = section.get("rope_type", section.get("type"))
        if kind not in (None, "default"):
            scaling = {"type": kind, **{key: float(section[key]) for key in _SHAPE if _number(section.get(key))}}
    return {"theta": float(theta) if theta is not None and _number(theta) else None, "scaling": scaling}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
