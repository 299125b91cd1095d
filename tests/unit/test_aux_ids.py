"""Layer ids in a profile that the engine would not tap, one for one.

.venv/bin/python -m pytest tests/unit/test_aux_ids.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.errors import UsageError
from helpers.serving import Profile, Speculation
from helpers.serving.launch import check_ids

CONFIG: dict[str, Any] = {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 10}


def profile(*ids: int, engine: str = "sglang==0.5.9") -> Profile:
    numbers = Speculation(num_steps=3, num_draft_tokens=4)
    return Profile(name="x", engine=engine, model="/m", draft="/d", speculation=numbers, aux_layer_ids=ids)


@pytest.mark.parametrize(
    ("ids", "tapped"), [((1, 4, 11), "[2, 5]"), ((1, 4, 9), "[2, 5]"), ((1, 1, 4), "[2, 5]"), ((-2, 4), "[5]")]
)
def test_ids_out_of_reach_or_of_one_boundary_are_refused(ids: tuple[int, ...], tapped: str) -> None:
    for config in (CONFIG, {"architectures": ["Wrapper"], "text_config": CONFIG}):
        with pytest.raises(UsageError) as caught:
            check_ids(profile(*ids), config)
        assert caught.value.code == "WB-PROFILE-INVALID"
        assert f"taps only boundaries {tapped}" in caught.value.message


def test_ids_that_are_tapped_and_rules_that_are_not_known_pass() -> None:
    check_ids(profile(1, 4, 8), CONFIG)
    check_ids(profile(-1, 1, 4), CONFIG)
    check_ids(profile(8, 4, 1), CONFIG)  # the engine sorts them: wrong perhaps, but it starts
    check_ids(profile(1, 4, 11), {**CONFIG, "architectures": ["OtherForCausalLM"]})
    check_ids(profile(1, 4, 11, engine="sglang==0.6.0"), CONFIG)
    check_ids(profile(1, 4, 11), None)
