"""The usual suspects when a drafter is accepted less often in serving than in training, each as a hypothesis.

They are the questions that people settled by hand in the case that this workbook was born from. Most of them go free in
most investigations, and stay in the ledger all the same: the next person will have the same ideas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.ledger.book import Ledger
    from helpers.ledger.records import Hypothesis

#: key -> (claim, prediction, threshold)
SUSPECTS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "tp-shard": (
            "each tensor-parallel rank taps only its own shard of the features",
            "the ranks differ, or a slot is narrower than the hidden size",
            "any tensor of a rank that is no bit-equal replica, or a feed that is not K x hidden wide",
        ),
        "a2a-gather": (
            "an all-to-all MoE backend leaves other tokens on each rank",
            "the backend's branch is taken in the engine's source, and the ranks hold other tokens",
            "a backend in the launch arguments, or ranks whose token ids differ",
        ),
        "order": (
            "the slots are concatenated in another order than the drafter's fc was trained with",
            "the served slots are the trained ones in another order",
            "the finding slot-permuted or fc-order",
        ),
        "token-shift": (
            "the features are those of the token before or after",
            "served row t is trained row t + s for a shift s that is not 0",
            "the finding token-shift",
        ),
        "ids": (
            "the layer ids feed other boundaries than training captured",
            "at least one served slot is another boundary than its trained slot",
            "a slot finding of severity error: slot-embedding, slot-offset, slot-wrong or slot-duplicate",
        ),
    }
)


def suspects(ledger: Ledger) -> dict[str, Hypothesis]:
    """The suspects as hypotheses of a ledger, by key; those that it has already stay as they are."""
    return {
        key: ledger.hypothesis(claim, key=key, prediction=prediction, threshold=threshold)
        for key, (claim, prediction, threshold) in SUSPECTS.items()
    }
