"""The wiring report on three releases, each statement with its lines; what is not read is named.

.venv/bin/python -m pytest tests/contract/test_reading_wheels.py
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from model_folders import KIMI_K25, LLAMA3, QWEN3_MOE
from preflight_support import Made

from helpers.source.reading import Statement, WiringReport, read_wiring
from helpers.source.reading.allreduce import Chip
from helpers.source.reading.statement import Topic
from helpers.source.tree import SourceTree
from helpers.source.wheels import fetch_wheel

SETTINGS: dict[str, Any] = {
    "tp_size": 8,
    "nnodes": 1,
    "dp_size": 1,
    "attn_cp_size": 1,
    "moe_a2a_backend": "none",
    "enable_dp_attention": False,
    "enable_flashinfer_allreduce_fusion": False,
    "flashinfer_allreduce_fusion_backend": None,
    "device": "cuda",
}
DEEPSEEK, KIMI = "DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration"
LLAMA, QWEN = "LlamaForCausalLM", "Qwen3MoeForCausalLM"
STAGED = ["deepseek_v2.py:3193", "deepseek_v2.py:2807", "stage.py:426", "stage.py:473"]
READ = ("srt/models/", "srt/layers/", "srt/model_executor/", "srt/arg_groups/", "srt/server_args.py", "version.py")


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SourceTree]:
    """The wheels of 0.5.10 and 0.5.23 unpacked, as far as they are read."""
    found = {}
    for version in ("0.5.10", "0.5.23"):
        root = tmp_path_factory.mktemp(version)
        with zipfile.ZipFile(fetch_wheel(f"sglang=={version}")) as wheel:
            names = [n for n in wheel.namelist() if n.endswith(".py") and any(part in n for part in READ)]
            wheel.extractall(root, names)
        found[version] = SourceTree.open(root)
    return found


def read(tree: SourceTree, architecture: str, chip: Chip | None = Chip(9, 0), **settings: Any) -> WiringReport:
    return read_wiring(tree, architecture, {**SETTINGS, **settings}, chip=chip)


def places(statement: Statement) -> list[str]:
    return [f"{line.file.rpartition('/')[2]}:{line.line}" for line in statement.evidence]


@pytest.fixture(scope="session")
def reports(trees: dict[str, SourceTree]) -> dict[tuple[str, str], WiringReport]:
    """The case's launch on an SM90, by version and architecture."""
    names = (DEEPSEEK, KIMI, LLAMA, QWEN)
    return {(version, name): read(tree, name) for version, tree in trees.items() for name in names}


@pytest.mark.parametrize("version", ["0.5.10", "0.5.23"])
@pytest.mark.parametrize("architecture", [DEEPSEEK, KIMI, LLAMA, QWEN])
def test_nothing_is_unread(
    version: str, architecture: str, trees: dict[str, SourceTree], reports: dict[tuple[str, str], WiringReport]
) -> None:
    report = reports[version, architecture]
    assert report.version == version
    assert {s.topic: s.unread for s in report.statements if s.unread} == {}
    for statement in report.statements:
        for line in statement.evidence:
            text = trees[version].read(line.file)
            assert text is not None
            assert text.split("\n")[line.line - 1] == line.text


@pytest.mark.parametrize(
    ("version", "architecture", "topic", "holds", "lines"),
    [
        ("0.5.10", DEEPSEEK, "taps", True, ["deepseek_v2.py:2059"]),
        ("0.5.10", KIMI, "taps", True, ["deepseek_v2.py:2059"]),
        ("0.5.10", LLAMA, "taps", True, ["llama.py:388"]),
        ("0.5.10", QWEN, "taps", True, ["communicator.py:433"]),
        ("0.5.10", DEEPSEEK, "a2a", False, ["deepseek_v2.py:1963", "deepseek_v2.py:1964", "deepseek_v2.py:2057"]),
        ("0.5.10", DEEPSEEK, "order", True, ["logits_processor.py:553", "logits_processor.py:562"]),
        (
            "0.5.23",
            DEEPSEEK,
            "taps",
            True,
            ["deepseek_v2.py:3193", "deepseek_v2.py:2807", "stage.py:426", "stage.py:473"],
        ),
        ("0.5.23", KIMI, "taps", True, ["deepseek_v2.py:3193", "deepseek_v2.py:2807", "stage.py:426", "stage.py:473"]),
        ("0.5.23", LLAMA, "taps", True, ["llama.py:491", "llama.py:402", "stage.py:426", "stage.py:452"]),
        ("0.5.23", QWEN, "taps", True, ["qwen2_moe.py:1200", "qwen3_moe.py:898", "stage.py:426", "stage.py:473"]),
        ("0.5.23", DEEPSEEK, "a2a", None, ["stage.py:467", "stage.py:473"]),
        ("0.5.23", LLAMA, "a2a", None, ["stage.py:450", "stage.py:452"]),
        (
            "0.5.23",
            DEEPSEEK,
            "order",
            True,
            [
                *("logits_processor.py:869", "logits_processor.py:878"),
                *("aux_hidden_states.py:102", "aux_hidden_states.py:66"),
            ],
        ),
        ("0.5.23", DEEPSEEK, "graphs", False, ["model_runner.py:1109", "attention_backend_setup.py:61"]),
        ("0.5.23", DEEPSEEK, "overlap", False, ["deepseek_v2.py:3166", "deepseek_v2.py:3203"]),
        ("0.5.23", LLAMA, "overlap", False, []),
    ],
)
def test_statements_with_their_lines(
    version: str,
    architecture: str,
    topic: Topic,
    holds: bool | None,
    lines: list[str],
    reports: dict[tuple[str, str], WiringReport],
) -> None:
    statement = reports[version, architecture].of(topic)
    assert (statement.holds, places(statement)) == (holds, lines)


def test_a_loops_tap_is_before_the_reduce_and_a_boundarys_after_it(
    reports: dict[tuple[str, str], WiringReport],
) -> None:
    """0.5.10 still spoils what it taps while it fuses; 0.5.23 completes the sums first."""
    before, after = (reports[v, DEEPSEEK].of("fusion") for v in ("0.5.10", "0.5.23"))
    assert (before.holds, dict(before.details)["spoils_taps"]) == (True, True)
    assert (after.holds, dict(after.details)["spoils_taps"], dict(after.details)["max_tokens"]) == (True, False, 2048)
    assert places(after) == ["overrides.py:988", "overrides.py:1001", "add_norm.py:144", "stage.py:473"]


@pytest.mark.parametrize(
    ("chip", "settings", "on"),
    [
        (Chip(8, 0), {}, False),
        (Chip(10, 0), {}, True),
        (Chip(9, 0), {"tp_size": 1}, False),
        (Chip(9, 0), {"enable_dp_attention": True}, False),
        (Chip(9, 0), {"moe_a2a_backend": "deepep"}, False),
        (Chip(9, 0), {"nnodes": 2}, False),
        (Chip(9, 0), {"enforce_disable_flashinfer_allreduce_fusion": True}, False),
        (Chip(9, 0), {"flashinfer_allreduce_fusion_backend": "auto"}, True),
        (None, {}, None),
        (None, {"device": "cpu"}, False),
    ],
)
def test_fusion_of_0_5_23_by_launch(
    chip: Chip | None, settings: dict[str, Any], on: bool | None, trees: dict[str, SourceTree]
) -> None:
    assert read(trees["0.5.23"], DEEPSEEK, chip, **settings).of("fusion").holds is on


@pytest.mark.parametrize("architecture", ["GptOssForCausalLM", "Gemma4ForCausalLM"])
def test_other_forms_are_said_to_be_unread(architecture: str, trees: dict[str, SourceTree]) -> None:
    report = read(trees["0.5.23"], architecture)
    assert report.of("taps").holds is None
    assert report.of("taps").unread


@pytest.mark.parametrize(
    ("version", "target", "ids", "expected"),
    [
        ("0.5.10", KIMI_K25, [2, 30, 58], ["graphs-tap-defaults", "fused-allreduce"]),
        ("0.5.23", KIMI_K25, [2, 30, 58], ["version-moves-ids"]),
        ("0.5.23", LLAMA3, None, []),
        ("0.5.23", QWEN3_MOE, None, []),
    ],
)
def test_preflight_of_other_releases(
    version: str,
    target: dict[str, Any],
    ids: list[int] | None,
    expected: list[str],
    trees: dict[str, SourceTree],
    tmp_path: Path,
) -> None:
    """0.5.10 has the case's two traps still, 0.5.23 neither; sound drafters meet silence; nothing is unread."""
    launch = Made(tmp_path, target, ids)
    launch.profile = {"tp": 8, "engine": f"sglang=={version}"}
    report = launch.look(gpu="sm90", source=trees[version].root)
    assert ([finding.code for finding in report.findings], report.unread) == (expected, {})
