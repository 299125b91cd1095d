"""Which side is as the drafter's config asks: what is served, what was trained, both or neither.

That the two sides differ does not say which of them is wrong. The config is a third witness: it says what whoever made
the drafter meant. It can be wrong as well, so it is named and not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from helpers.errors import UsageError
from helpers.wiring.boundaries import Rule
from helpers.wiring.draft_ids import read_draft_ids
from helpers.wiring.explaining import Label
from helpers.wiring.fixing import Fix

Agreement = Literal["served", "trained", "both", "neither"]


class DraftConfig(BaseModel):
    """What the drafter's config.json asks for on the captured engine, and which side is so.

    Attributes:
        aux_layer_ids: those that SGLang reads; null where there are none.
        boundaries: what they tap on the captured engine; null where that could not be said.
        agrees_with: null where a side's slots are not all known, or there are no boundaries to hold them against.
        note: the same in a sentence.
    """

    model_config = ConfigDict(frozen=True)

    aux_layer_ids: list[int] | None
    boundaries: list[int] | None
    agrees_with: Agreement | None
    note: str


def hold_against_config(
    draft: Path, labels: tuple[list[Label], list[Label]] | None, convention: Rule | None, num_layers: int
) -> DraftConfig:
    """Hold both sides against the config of the drafter in a folder.

    Args:
        labels: what the slots are, served and trained; None where they could not be read.
        num_layers: of the target.

    Raises:
        UsageError: ``WB-DRAFT-CONFIG`` for a config.json that cannot be read.
    """
    if not (draft / "config.json").exists():
        return DraftConfig(aux_layer_ids=None, boundaries=None, agrees_with=None, note=f"{draft} has no config.json")
    read = read_draft_ids(draft)
    if read.served is None:
        note = "the drafter's config.json names no ids in eagle_config: the engine chooses"
        return DraftConfig(aux_layer_ids=None, boundaries=None, agrees_with=None, note=note)
    ids = list(read.served)
    if convention is None:
        note = f"the drafter's config asks for the ids {ids}; how this engine reads ids is not known"
        return DraftConfig(aux_layer_ids=ids, boundaries=None, agrees_with=None, note=note)
    try:
        asked = list(convention.boundaries(ids, num_layers))
    except UsageError as error:
        note = f"the drafter's config asks for the ids {ids}, which could not be read as boundaries: {error.message}"
        return DraftConfig(aux_layer_ids=ids, boundaries=None, agrees_with=None, note=note)
    agrees = None if labels is None else agreement(asked, *labels)
    note = f"the drafter's config asks for the ids {ids}, boundaries {asked} on {convention.name}"
    return DraftConfig(
        aux_layer_ids=ids, boundaries=asked, agrees_with=agrees, note=note + judged(agrees, labels, asked)
    )


def agreement(asked: Sequence[int], served: Sequence[Label], trained: Sequence[Label]) -> Agreement | None:
    """Which sides are what the config asks for; None where one of them is not known whole.

    >>> agreement([2, 5, 9], [0, 2, 5], [2, 5, 9]), agreement([2, 5, 9], [2, 5, 9], [0, 2, 5])
    ('trained', 'served')
    """
    if not served or not trained or not all(isinstance(label, int) for label in (*served, *trained)):
        return None
    right = (list(served) == list(asked), list(trained) == list(asked))
    words: dict[tuple[bool, bool], Agreement] = {
        (True, True): "both",
        (True, False): "served",
        (False, True): "trained",
        (False, False): "neither",
    }
    return words[right]


def judged(agrees: Agreement | None, labels: tuple[list[Label], list[Label]] | None, asked: Sequence[int]) -> str:
    """The end of the sentence."""
    served, trained = labels if labels is not None else ([], [])
    if agrees is None:
        return "; not all slots of both sides are known boundaries, so neither side is held against it"
    if agrees == "both":
        return ": what is served and what was trained are both so"
    if agrees == "neither":
        return f": neither side is so; {list(served)} is served, {list(trained)} was trained"
    if agrees == "trained":
        return f": training is so, serving ({list(served)}) is not"
    return f": serving is so, training ({list(trained)}) is not"


def both_ways(fix: Fix | None, config: DraftConfig | None) -> Fix | None:
    """A fix that names ids says how serving would follow training; where serving is as the config asks, training could
    follow as well, and nothing here decides between the two."""
    if fix is None or fix.aux_layer_ids is None or config is None or config.agrees_with != "served":
        return fix
    other = (
        f"or train again on the boundaries {config.boundaries}, which the drafter's config asks for and which are fed"
    )
    return fix.model_copy(update={"note": f"{fix.note}; {other}"})
