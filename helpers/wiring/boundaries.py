"""Layer ids of a stack <-> boundaries, the one unit in which stacks are compared.

A `Convention` is how one version of one engine reads ids for one model. Those below were read in the sources that they
name; an engine or a model that is not among them is refused, never guessed.
"""

from __future__ import annotations

from helpers.errors import UsageError
from helpers.source.convention import KNOWN, SGLANG_059_DEEPSEEK, Convention

__all__ = ["KNOWN", "SGLANG_059_DEEPSEEK", "Convention", "convention_for", "default_boundaries"]


def default_boundaries(num_layers: int) -> list[int]:
    """What SGLang taps when no ids are given."""
    return [2, num_layers // 2, num_layers - 3]


def convention_for(engine: str, version: str, architecture: str) -> Convention:
    """The convention of a served model.

    Raises:
        UsageError: ``WB-BOUNDARIES-UNREAD`` where nobody has read the rule yet.
    """
    found = KNOWN.get((engine, version, architecture))
    if found is None:
        raise UsageError(
            "WB-BOUNDARIES-UNREAD",
            f"how {engine} {version} reads layer ids for {architecture} has not been read from its source",
            expected="one of: " + ", ".join(f"{e} {v} {a}" for e, v, a in KNOWN),
            next="read set_eagle3_layers_to_capture in the model's file: workbook grep BOX set_eagle3 FILE",
        )
    return found
