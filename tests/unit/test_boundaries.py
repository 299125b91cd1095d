"""Layer ids <-> boundaries: SGLang 0.5.9's deepseek rule, and the refusal of what was not read."""

from __future__ import annotations

import pytest

from helpers.errors import UsageError
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK as RULE
from helpers.wiring.boundaries import convention_for, default_boundaries


@pytest.mark.parametrize(
    ("ids", "layers", "boundaries"),
    [
        ([2, 30, 58], 61, [3, 31, 59]),
        ([-1, 2, 30], 61, [0, 3, 31]),
        ([1, 4, 8], 10, [2, 5, 9]),
        ([58, 2, 30], 61, [3, 31, 59]),
        ([4, 4, 8], 10, [5, 9]),
        ([1, 4, 9], 10, [2, 5]),
        ([-2, 4], 10, [5]),
    ],
)
def test_ids_to_boundaries(ids: list[int], layers: int, boundaries: list[int]) -> None:
    assert RULE.boundaries(ids, layers) == boundaries


@pytest.mark.parametrize(
    ("boundaries", "layers", "ids"),
    [
        ([3, 31, 59], 61, [2, 30, 58]),
        ([0, 3, 31], 61, [-1, 2, 30]),
        ([5, 2, 9], 10, None),
        ([2, 5, 10], 10, None),
        ([2, 2, 5], 10, None),
    ],
)
def test_boundaries_to_ids(boundaries: list[int], layers: int, ids: list[int] | None) -> None:
    assert RULE.ids(boundaries, layers) == ids


def test_defaults_are_boundaries_already() -> None:
    assert default_boundaries(61) == [2, 30, 58]


def test_only_what_was_read() -> None:
    assert convention_for("sglang", "0.5.9", "DeepseekV3ForCausalLM") is RULE
    with pytest.raises(UsageError, match="WB-BOUNDARIES-UNREAD"):
        convention_for("sglang", "0.5.23", "DeepseekV3ForCausalLM")
