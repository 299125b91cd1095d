"""Statements about the wiring, read from the wheel's own source and from small edits of it.

.venv/bin/python -m pytest tests/unit/test_reading.py
"""

from __future__ import annotations

import ast
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from helpers.source.patch_state import load_patch
from helpers.source.reading import Statement, WiringReport, read_wiring
from helpers.source.reading.allreduce import Chip
from helpers.source.reading.conditions import UNKNOWN, evaluate
from helpers.source.reading.statement import Topic
from helpers.source.tree import SourceTree
from helpers.source.unified import place

WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
MODEL = "sglang/srt/models/deepseek_v2.py"
SETTINGS: dict[str, Any] = {
    "tp_size": 8,
    "nnodes": 1,
    "dp_size": 1,
    "moe_a2a_backend": "none",
    "enable_dp_attention": False,
    "enable_flashinfer_allreduce_fusion": False,
    "device": "cuda",
}


def read(architecture: str, root: Path = WHEEL, **settings: Any) -> WiringReport:
    return read_wiring(SourceTree.open(root), architecture, {**SETTINGS, **settings}, chip=Chip(9, 0))


def places(statement: Statement) -> list[str]:
    return [f"{line.file.rpartition('/')[2]}:{line.line}" for line in statement.evidence]


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """The parts of the wheel that are read, to be edited."""
    for name in ("models", "layers/communicator.py", "layers/logits_processor.py", "model_executor", "server_args.py"):
        here, there = WHEEL / "sglang/srt" / name, tmp_path / "sglang/srt" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(here, there) if here.is_dir() else shutil.copy(here, there)
    return tmp_path


def edit(root: Path, name: str, before: str, after: str) -> None:
    file = root / "sglang/srt" / name
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_the_cases_model_every_topic_with_its_lines() -> None:
    report = read("DeepseekV3ForCausalLM")
    assert report.version == "0.5.9"
    assert {s.topic: (s.holds, places(s)) for s in report.statements} == {
        "setter": (True, ["deepseek_v2.py:2963"]),
        "taps": (True, ["deepseek_v2.py:2728"]),
        "a2a": (False, ["deepseek_v2.py:2632", "deepseek_v2.py:2633", "deepseek_v2.py:2726"]),
        "fusion": (
            True,
            [
                *("server_args.py:1681", "server_args.py:1697", "communicator.py:95"),
                *("deepseek_v2.py:2430", "deepseek_v2.py:2728"),
            ],
        ),
        "overlap": (False, ["deepseek_v2.py:2704", "deepseek_v2.py:2741"]),
        "graphs": (True, ["model_runner.py:609", "cuda_graph_runner.py:365", "model_runner.py:622"]),
        "order": (True, ["logits_processor.py:553", "logits_processor.py:562"]),
        "drafter": (True, ["llama_eagle3.py:135", "llama_eagle3.py:162"]),
    }
    assert not any(s.unread for s in report.statements)
    taps, a2a, fusion = report.of("taps"), report.of("a2a"), report.of("fusion")
    assert "`hidden_states + residual`" in taps.summary
    assert "a tensor of its own" in taps.summary
    assert "tensor_model_parallel_all_gather(hidden_states + residual, dim=0)" in a2a.summary
    assert "over tokens (dim 0), not over features" in a2a.summary
    assert dict(fusion.details) == {"max_tokens": 2048, "architecture": "DeepseekV3ForCausalLM", "spoils_taps": True}


@pytest.mark.parametrize(
    ("topic", "changed", "holds", "said"),
    [
        (
            "a2a",
            {},
            False,
            "off for this launch (moe_a2a_backend none); where it is on, under `self.enable_a2a_moe",
        ),
        ("a2a", {"moe_a2a_backend": "deepep"}, True, "under `self.enable_a2a_moe and i > "),
        ("graphs", {}, True, "graphs are captured before the configured ids are set"),
        ("graphs", {"disable_cuda_graph": True}, False, "off for this launch (no CUDA graphs: disabled); where it is"),
        ("graphs", {"device": "cpu"}, False, "off for this launch (no CUDA graphs: --device cpu); where it is on, "),
        ("overlap", {}, False, "off for this launch (no --enable-two-batch-overlap); where it is on, with two-batch "),
        ("overlap", {"enable_two_batch_overlap": True}, True, "with two-batch overlap layers run in"),
    ],
)
def test_what_holds_is_of_the_launch(topic: Topic, changed: dict[str, Any], holds: bool, said: str) -> None:
    """A branch that is there and is not taken does not hold; its lines stay."""
    statement = read("DeepseekV3ForCausalLM", **changed).of(topic)
    assert (statement.holds, statement.unread) == (holds, "")
    assert statement.summary.startswith(said)
    assert statement.evidence


def test_a_switch_that_asks_for_something_else_is_not_known(edited: Path) -> None:
    edit(edited, "models/deepseek_v2.py", "self.enable_a2a_moe = True", "self.enable_a2a_moe = False")
    nowhere = read("DeepseekV3ForCausalLM", edited, moe_a2a_backend="deepep").of("a2a")
    assert (nowhere.holds, nowhere.unread) == (
        None,
        "what decides `self.enable_a2a_moe and i > self.first_k_dense_replace`",
    )
    edit(edited, "models/deepseek_v2.py", "self.enable_a2a_moe = False", "self.enable_a2a_moe = True")
    edit(edited, "models/deepseek_v2.py", "if get_moe_a2a_backend().is_deepep()", "if gathers() and tp()")
    assert read("DeepseekV3ForCausalLM", edited).of("a2a").holds is None


@pytest.mark.parametrize(
    ("architecture", "tap", "spoils"),
    [
        ("KimiK25ForConditionalGeneration", "deepseek_v2.py:2728", True),
        ("GptOssForCausalLM", "gpt_oss.py:569", True),
        ("Glm4MoeForCausalLM", "glm4_moe.py:963", True),
        ("Qwen3MoeForCausalLM", "communicator.py:409", False),
        ("LlamaForCausalLM", "llama.py:383", None),
        ("Llama4ForConditionalGeneration", "llama4.py:519", None),
    ],
)
def test_taps_by_model(architecture: str, tap: str, spoils: bool | None) -> None:
    """A communicator's tap comes after the reduce that was left to it, a loop's before: only the latter is spoilt."""
    report = read(architecture)
    assert places(report.of("taps")) == [tap]
    assert report.of("fusion").holds is (spoils is not None)
    if spoils is not None:
        assert dict(report.of("fusion").details)["spoils_taps"] is spoils


def test_the_cases_patch_taps_the_embedding_too(edited: Path) -> None:
    file = edited / MODEL
    text = place(file.read_bytes(), load_patch("capture-embedding", "0.5.9").files[0]).text
    assert text is not None
    file.write_bytes(text)
    taps = read("DeepseekV3ForCausalLM", edited).of("taps")
    assert len(taps.evidence) == 2
    assert "`hidden_states.clone()` where `self.capture_embedding_for_eagle3`" in taps.summary


def test_a_patched_kimi_has_a_setter(edited: Path) -> None:
    file = edited / "sglang/srt/models/kimi_k25.py"
    text = place(file.read_bytes(), load_patch("kimi-k25-eagle3", "0.5.9").files[0]).text
    assert text is not None
    assert read("KimiK25ForConditionalGeneration", edited).of("setter").holds is False
    file.write_bytes(text)
    assert read("KimiK25ForConditionalGeneration", edited).of("setter").holds is True


def test_an_alias_is_told_from_a_copy(edited: Path) -> None:
    edit(edited, "models/llama.py", "append(hidden_states + residual)", "append(residual)")
    assert "an alias" in read("LlamaForCausalLM", edited).of("taps").summary


@pytest.mark.parametrize(
    "after",
    ["append(snapshot(hidden_states))", "append(hidden_states * 2)", "append(self.norm(hidden_states + residual))"],
)
def test_a_tap_of_another_form_is_unread_at_its_line(edited: Path, after: str) -> None:
    edit(edited, "models/llama.py", "append(hidden_states + residual)", after)
    taps = read("LlamaForCausalLM", edited).of("taps")
    assert (taps.holds, places(taps)) == (None, ["llama.py:383"])
    assert taps.unread


def test_ids_set_before_the_graphs_are_no_trap(edited: Path) -> None:
    edit(
        edited,
        "model_executor/cuda_graph_runner.py",
        "            self.model_runner.model.set_eagle3_layers_to_capture()",
        "            pass",
    )
    assert read("DeepseekV3ForCausalLM", edited).of("graphs").holds is False


@pytest.mark.parametrize(
    ("name", "before", "after", "topic"),
    [
        ("server_args.py", "self.enable_flashinfer_allreduce_fusion = True", "self.fuse()", "fusion"),
        ("layers/communicator.py", "def apply_flashinfer_allreduce_fusion", "def apply_it", "fusion"),
        ("layers/logits_processor.py", "torch.cat(aux", "joined(aux", "order"),
        ("models/llama_eagle3.py", "self.fc = ", "self.fused = ", "drafter"),
        ("model_executor/model_runner.py", "self.init_device_graphs()", "self.go()", "graphs"),
    ],
)
def test_what_is_written_in_another_way_is_said_to_be_unread(
    edited: Path, name: str, before: str, after: str, topic: Any
) -> None:
    edit(edited, name, before, after)
    statement = read("DeepseekV3ForCausalLM", edited).of(topic)
    assert statement.holds is None
    assert statement.unread


@pytest.mark.parametrize("name", ["server_args.py", "layers/communicator.py", "layers/logits_processor.py"])
def test_files_that_are_missing_or_no_python_are_said_to_be_unread(edited: Path, name: str) -> None:
    (edited / "sglang/srt" / name).write_text("def (:\n")
    broken = read("DeepseekV3ForCausalLM", edited)
    (edited / "sglang/srt" / name).unlink()
    missing = read("DeepseekV3ForCausalLM", edited)
    for report in (broken, missing):
        assert any(name in statement.unread for statement in report.statements)


def test_an_architecture_that_no_file_defines() -> None:
    report = read("NobodysForCausalLM")
    assert {s.topic for s in report.statements if s.unread} == {"setter", "taps", "a2a", "fusion", "overlap"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a and b", UNKNOWN),
        ("no and b", False),
        ("yes or b", True),
        ("not b", UNKNOWN),
        ("self.n == 1 and not self.off", True),
        ("model in ['x', 'y']", True),
        ("model not in ('x',)", False),
        ("size <= 2048", True),
        ("size > 'a'", UNKNOWN),
        ("f(1)", UNKNOWN),
        ("0 < size < 3", UNKNOWN),
    ],
)
def test_conditions_of_three_values(text: str, value: object) -> None:
    known = {"yes": True, "no": False, "self.n": 1, "self.off": False, "model": "x", "size": 7}
    assert evaluate(ast.parse(text, mode="eval").body, known) is value


def test_a_clone_of_the_repository_and_a_folder_without_sglang(tmp_path: Path) -> None:
    from helpers.errors import UsageError

    (tmp_path / "python/sglang/srt").mkdir(parents=True)
    assert SourceTree.open(tmp_path).root == tmp_path / "python"
    assert SourceTree.open(tmp_path).version is None
    with pytest.raises(UsageError) as caught:
        SourceTree.open(tmp_path / "nowhere")
    assert caught.value.code == "WB-SOURCE-FOLDER"
