"""The same physical taps in every convention: `[2, 30, 58]` on SGLang 0.5.9 is `[3, 31, 59]` on vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.errors import UsageError
from helpers.source.setter import SourceTree
from helpers.source.wheels import cached_wheel, fetch_wheel
from helpers.wiring.boundaries import SPECFORGE_HF, VLLM, read_convention

RELEASES = ("sglang==0.5.9", "sglang==0.5.10", "sglang==0.5.23")


def same_taps(
    boundaries: Sequence[int],
    num_layers: int,
    *,
    model: str | None,
    architecture: str | None = None,
    here: tuple[str, SourceTree] | None = None,
    releases: Sequence[str] = RELEASES,
) -> list[dict[str, Any]]:
    """Ids in each convention that tap these boundaries, with where that was read.

    Args:
        here: the source at hand and what it is called.
        releases: releases to look into; one that cannot be fetched or read says so in ``note``.

    Returns:
        ``[{convention, ids | None, source, note?}]``; ids are None where none tap these boundaries in this order.
    """
    found: list[dict[str, Any]] = []
    if not boundaries:
        return found
    names = [name for name in releases if here is None or name != here[0]] if model is not None else []
    if here is not None and model is not None:
        found.append(of_source(here[0], here[1], boundaries, num_layers, model, architecture))
    reachable = True
    for name in names:
        try:
            wheel = fetch_wheel(name) if reachable else cached_wheel(name)
        except UsageError as error:
            wheel, reachable = None, False  # Offline: what is in the cache is still read.
            found.append(entry(name, None, "", error.message))
            continue
        if wheel is None:
            found.append(entry(name, None, "", "its wheel is not in the cache"))
            continue
        tree = SourceTree(wheel)
        found.append(of_source(name, tree, boundaries, num_layers, model or "", architecture))
    for rule in (VLLM, SPECFORGE_HF):
        found.append(entry(rule.name, rule.ids(boundaries, num_layers), rule.source))
    first = found[0] if here is not None and model is not None else None
    if first is not None:
        note = "it hands its ids to the setter of the SGLang that it runs on"
        found.append(entry(f"SpecForge on {first['convention']}", first["ids"], first["source"], note))
    ids = VLLM.ids(boundaries, num_layers)
    note = f"vLLM's ids, and {num_layers} after them: the last state, the verifier's output and no slot"
    found.append(entry("speculators", [*ids, num_layers] if ids is not None else None, VLLM.source, note))
    return found


def of_source(
    name: str, tree: SourceTree, boundaries: Sequence[int], num_layers: int, model: str, architecture: str | None
) -> dict[str, Any]:
    try:
        rule = read_convention(tree, model, name, architecture)
        return entry(name, rule.ids(boundaries, num_layers), rule.source)
    except UsageError as error:
        return entry(name, None, "", f"{error.code}: {error.message}")


def entry(name: str, ids: list[int] | None, source: str, note: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"convention": name, "ids": ids, "source": source}
    if note is not None:
        made["note"] = note
    return made
