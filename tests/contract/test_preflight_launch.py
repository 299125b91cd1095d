"""Preflight on launches and checkpoints of other kinds: overlap, all-to-all backends, another project's checkpoint.

.venv/bin/python -m pytest tests/contract/test_preflight_launch.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_folders import KIMI_TEXT, LLAMA3, QWEN3_MOE, drafter_of, shapes_of
from preflight_support import Made, codes, places


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.mark.parametrize(("target", "codes_"), [(KIMI_TEXT, ["two-batch-overlap"]), (LLAMA3, [])])
def test_two_batch_overlap(tmp_path: Path, target: dict[str, Any], codes_: list[str]) -> None:
    """A finding where the model runs layers outside the loop that taps; llama has no such path."""
    launch = Made(tmp_path, target)
    launch.profile["extra_args"] = ("--enable-two-batch-overlap", "--moe-a2a-backend", "deepep")
    report = launch.look()
    assert codes(report) == codes_
    if codes_:
        assert places(report.findings[0]) == ["deepseek_v2.py:2704", "deepseek_v2.py:2741"]


@pytest.mark.parametrize(
    ("architecture", "extra", "expected"),
    [
        ("Glm4MoeForCausalLM", (), ["a2a-token-shards"]),
        ("Glm4MoeForCausalLM", ("--enable-dp-attention", "--dp", "8"), []),
        ("DeepseekV3ForCausalLM", (), []),  # Its loop gathers them.
        ("Qwen3MoeForCausalLM", (), []),  # Its communicator does.
    ],
)
def test_token_shards_under_an_all_to_all_backend(
    tmp_path: Path, architecture: str, extra: tuple[str, ...], expected: list[str]
) -> None:
    launch = Made(tmp_path, {**QWEN3_MOE, "architectures": [architecture]})
    launch.profile = {"tp": 8, "extra_args": ("--moe-a2a-backend", "deepep", *extra)}
    report = launch.look()
    assert codes(report) == expected
    assert [places(finding) for finding in report.findings] == [["glm4_moe.py:963"]][: len(expected)]


def test_a_checkpoint_of_speculators_as_it_stands(made: Made) -> None:
    """Another class, a nested config, ids at the top level, names that nobody claims: the class is what stops it."""
    made.config = {
        "architectures": ["Eagle3Speculator"],
        "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
        "draft_vocab_size": 32000,
        "transformer_layer_config": {key: made.config[key] for key in ("hidden_size", "intermediate_size")},
    }
    made.shapes = shapes_of(drafter_of(LLAMA3), block="layers.0")
    del made.shapes["t2d"]
    report = made.look()
    assert "draft-class-unknown" in codes(report)
    assert "ids-at-top-level" in codes(report)
    said = next(finding for finding in report.findings if finding.code == "draft-class-unknown")
    assert "speculators" in said.summary
