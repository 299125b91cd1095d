"""Each trap on a config made for it, silence on three sound ones, and the case's own config with its lines.

.venv/bin/python -m pytest tests/contract/test_preflight.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_folders import (
    BF16,
    KIMI_K25,
    KIMI_TEXT,
    LLAMA3,
    QWEN3_MOE,
    drafter_of,
    profile_of,
    shapes_of,
)
from preflight_support import Made, codes, copied, look, only, places

from helpers.paths import DATA
from helpers.serving import load_profiles

CASE_IDS = [2, 30, 58]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


# --- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["baseline", "right"])
def test_silent_on_the_labs_own_profiles(name: str) -> None:
    folders = {"target": DATA / "lab/target", "draft": DATA / "lab/drafter"}
    report = look(load_profiles()[name], gpu=None, **folders)
    assert (codes(report), report.unread) == ([], {})


@pytest.mark.parametrize("gpu", ["sm80", "sm90", "sm100"])
@pytest.mark.parametrize(("target", "tp"), [(LLAMA3, 1), (LLAMA3, 4), (QWEN3_MOE, 1), (QWEN3_MOE, 8)])
def test_silent_on_sound_drafters(tmp_path: Path, target: dict[str, Any], tp: int, gpu: str) -> None:
    """Qwen3-MoE at TP 8 on SM90 fuses its all-reduce, and taps behind it: no harm, no word."""
    launch = Made(tmp_path, target)
    launch.profile = {"tp": tp}
    report = launch.look(gpu=gpu)
    assert (codes(report), report.unread) == ([], {})


def test_silent_where_explicit_ids_are_what_graphs_tap(tmp_path: Path) -> None:
    assert codes(Made(tmp_path, LLAMA3, [1, 15, 28]).look()) == []


# --- the case --------------------------------------------------------------------------------------------------------


@pytest.fixture
def case(tmp_path: Path) -> Made:
    launch = Made(tmp_path, KIMI_TEXT, CASE_IDS)
    launch.profile = {"tp": 8}
    return launch


def test_the_case_names_fusion_and_graphs_with_lines(case: Made) -> None:
    report = case.look(gpu="sm90")
    assert codes(report) == ["graphs-tap-defaults", "fused-allreduce"]
    graphs, fused = report.findings
    assert (graphs.evidence["boundaries"], graphs.evidence["under_graphs"]) == ([3, 31, 59], [2, 30, 58])
    assert places(graphs) == ["model_runner.py:609", "cuda_graph_runner.py:365", "model_runner.py:622"]
    assert places(fused)[:2] == ["server_args.py:1681", "server_args.py:1697"]
    assert places(fused)[-2:] == ["deepseek_v2.py:2430", "deepseek_v2.py:2728"]
    assert fused.evidence["max_tokens"] == 2048
    assert not report.good


def test_the_cases_own_wrapper_has_no_setter_in_the_stock_engine(tmp_path: Path) -> None:
    launch = Made(tmp_path, KIMI_K25, CASE_IDS)
    launch.profile = {"tp": 8}
    report = launch.look(gpu="H200")
    assert sorted(codes(report)) == ["fused-allreduce", "graphs-tap-defaults", "target-no-eagle3"]
    missing = next(finding for finding in report.findings if finding.code == "target-no-eagle3")
    assert places(missing) == ["kimi_k25.py:648"]


@pytest.mark.parametrize(
    ("gpu", "changes"),
    [
        ("sm80", {}),
        ("sm89", {}),
        ("sm120", {}),
        ("H20", {}),
        ("sm90", {"tp": 1}),
        ("sm90", {"extra_args": ("--enable-dp-attention", "--dp", "8")}),
        ("sm90", {"extra_args": ("--nnodes", "2")}),
        ("sm90", {"extra_args": ("--moe-a2a-backend", "deepep")}),
        ("sm90", {"extra_args": ("--moe-a2a-backend=mooncake",)}),
        (None, {"extra_args": ("--device", "cpu")}),
    ],
)
def test_silent_about_fusion_where_it_cannot_be_on(case: Made, gpu: str | None, changes: dict[str, Any]) -> None:
    case.profile.update(changes)
    report = case.look(gpu=gpu)
    assert "fused-allreduce" not in codes(report)
    assert "fusion" not in report.unread


@pytest.mark.parametrize("gpu", ["sm100", "B200", "H100", "H200", "9.0"])
def test_fusion_on_every_chip_that_has_it(case: Made, gpu: str) -> None:
    assert "fused-allreduce" in codes(case.look(gpu=gpu))


def test_fusion_asked_for_on_an_h20(case: Made) -> None:
    case.profile["extra_args"] = ("--enable-flashinfer-allreduce-fusion",)
    assert "fused-allreduce" in codes(case.look(gpu="H20"))


def test_fusion_is_not_decided_without_a_chip(case: Made) -> None:
    report = case.look(gpu=None)
    assert codes(report) == ["graphs-tap-defaults"]
    assert "--gpu" in report.unread["fusion"]


def test_a_source_in_which_fusion_was_switched_off(case: Made, tmp_path: Path) -> None:
    root = copied(tmp_path / "source")
    arguments = root / "sglang/srt/server_args.py"
    text = arguments.read_text()
    assert text.count('"DeepseekV3ForCausalLM",\n                "GptOssForCausalLM"') == 1
    arguments.write_text(
        text.replace('"DeepseekV3ForCausalLM",\n                "GptOssForCausalLM"', '"GptOssForCausalLM"')
    )
    assert codes(case.look(gpu="sm90", source=root)) == ["graphs-tap-defaults"]


def test_no_graphs_no_trap(case: Made) -> None:
    case.profile["extra_args"] = ("--disable-cuda-graph",)
    assert codes(case.look()) == []


# --- one trap at a time ----------------------------------------------------------------------------------------------


def test_eagle_with_an_eagle3_drafter(made: Made) -> None:
    made.profile["extra_args"] = ("--speculative-algorithm", "EAGLE")
    finding = only(made.look(), "eagle-with-eagle3-drafter")
    assert places(finding) == ["llama_eagle3.py:162"]


@pytest.mark.parametrize(("ids", "slots"), [([1, 15, 20, 28], 3), (None, 4), (None, 2)])
def test_ids_times_hidden_is_not_the_width_of_fc(made: Made, ids: list[int] | None, slots: int) -> None:
    made.config = drafter_of(LLAMA3, ids)
    made.shapes = shapes_of(made.config, slots=slots)
    made.profile["extra_args"] = ("--disable-cuda-graph",)
    assert only(made.look(), "fc-width").evidence["fc"] == [4096, slots * 4096]


def test_more_slots_than_this_version_builds(made: Made) -> None:
    made.config = drafter_of(LLAMA3, [1, 10, 20, 28])
    made.shapes = shapes_of(made.config, slots=4)
    made.profile["extra_args"] = ("--disable-cuda-graph",)
    assert places(only(made.look(), "fc-width")) == ["llama_eagle3.py:135"]


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([1, 15, 31], "ids-out-of-reach"),
        ([1, 15, 400], "ids-out-of-reach"),
        ([-1, 15, 28], "ids-never-fire"),
        ([15, 15, 28], "ids-duplicate"),
        ([28, 15, 1], "ids-reordered"),
    ],
)
def test_ids_that_tap_nothing_or_not_what_they_seem(made: Made, ids: list[int], code: str) -> None:
    made.config = drafter_of(LLAMA3, ids)
    made.profile["extra_args"] = ("--disable-cuda-graph",)
    assert code in codes(made.look())


def test_ids_at_the_top_level_are_ignored(made: Made) -> None:
    made.config["eagle_aux_hidden_state_layer_ids"] = [2, 16, 29]
    assert "defaults" in only(made.look(), "ids-at-top-level").summary


def test_ids_at_both_levels_that_agree(made: Made) -> None:
    made.config = drafter_of(LLAMA3, [1, 15, 28], eagle_aux_hidden_state_layer_ids=[1, 15, 28])
    assert codes(made.look()) == []


def test_a_profile_that_feeds_other_ids_than_the_drafters(made: Made) -> None:
    made.config = drafter_of(LLAMA3, [1, 15, 28])
    made.profile = {"aux_layer_ids": (2, 15, 28), "extra_args": ("--disable-cuda-graph",)}
    assert only(made.look(), "ids-overridden").evidence == {"profile": [2, 15, 28], "draft": [1, 15, 28]}


def test_a_source_of_another_version(made: Made) -> None:
    made.profile["engine"] = "sglang==0.5.8"
    assert only(made.look(), "engine-version").evidence == {"profile": "0.5.8", "source": "0.5.9"}


@pytest.mark.parametrize(
    ("engine", "base", "severity"),
    [
        ("0.5.9", None, "error"),
        ("0.5.23", None, "info"),
        ("0.5.23", "0.5.9", "error"),
    ],  # the last: a word that is wrong
)
def test_a_version_that_takes_ids_as_boundaries(
    case: Made, tmp_path: Path, engine: str, base: str | None, severity: str
) -> None:
    """The setter's last line as 0.5.23 has it, with that version's name; everything else is 0.5.9."""
    root = copied(tmp_path / "source")
    setter = root / "sglang/srt/models/deepseek_v2.py"
    text = setter.read_text().replace("= [val + 1 for val in layer_ids]", "= list(layer_ids)")
    setter.write_text(text)
    version = root / "sglang/_version.py"
    version.write_text(version.read_text().replace("'0.5.9'", "'0.5.23'"))
    case.profile = {"engine": f"sglang=={engine}", "engine_base": base}
    moved = only(case.look(source=root), "version-moves-ids")
    assert moved.severity == severity
    assert (moved.evidence["boundaries"], moved.evidence["boundaries_on_0_5_9"]) == ([2, 30, 58], [3, 31, 59])
    assert "3,31,59" in moved.summary


def test_forward_hooks_under_graphs(made: Made) -> None:
    made.profile["extra_args"] = ("--forward-hooks", "[]")
    assert codes(made.look()) == ["hooks-under-graphs"]


def test_a_capture_profile_switches_graphs_off_itself(made: Made) -> None:
    made.profile["capture"] = True
    assert codes(made.look()) == []


def test_vocabularies_differ_without_d2t(made: Made) -> None:
    del made.shapes["d2t"], made.shapes["t2d"]
    assert only(made.look(), "d2t-missing").evidence == {"draft_vocab": 32000, "vocab": 128256}


@pytest.mark.parametrize(
    ("d2t", "words"),
    [
        ([100000 + 4 * i for i in range(32000)], "target's ids themselves"),
        ([-1], "tokens -1 to"),
        ([1], "another leads to"),
    ],
)
def test_a_broken_d2t(made: Made, d2t: list[int], words: str) -> None:
    made.tables["d2t"] = d2t
    del made.shapes["t2d"]
    assert words in only(made.look(), "d2t-broken").summary


def test_a_d2t_of_another_length(made: Made) -> None:
    made.shapes["d2t"] = (made.shapes["d2t"][0], [31999])
    del made.shapes["t2d"]
    assert "31999 entries for 32000" in only(made.look(), "d2t-broken").summary


@pytest.mark.parametrize("marked", [list(range(31999)), list(range(1, 32001)), []])
def test_a_t2d_that_disagrees(made: Made, marked: list[int]) -> None:
    made.tables["marked"] = marked
    assert only(made.look(), "t2d-broken").severity == "warning"


def test_speculators_names_that_nobody_claims(made: Made) -> None:
    made.shapes = shapes_of(made.config, block="layers.0")
    report = made.look()
    assert sorted(codes(report)) == ["weights-missing", "weights-unclaimed"]
    assert all(len(f.evidence.get("missing", f.evidence.get("unclaimed"))) == 10 for f in report.findings)
    assert "midlayer" in next(f.summary for f in report.findings if f.code == "weights-unclaimed")


@pytest.mark.parametrize("extra", ["fc_norm.0.weight", "input_norm.weight"])
def test_norms_that_this_version_does_not_have(made: Made, extra: str) -> None:
    made.shapes[extra] = (BF16, [4096])
    assert only(made.look(), "weights-unclaimed").evidence["unclaimed"] == [extra]


def test_a_tensor_that_is_missing(made: Made) -> None:
    del made.shapes["midlayer.hidden_norm.weight"]
    assert only(made.look(), "weights-missing").evidence["missing"] == ["midlayer.hidden_norm"]


def test_stored_with_the_prefix_model(made: Made) -> None:
    made.shapes = {f"model.{n}" if n not in ("d2t", "t2d", "lm_head.weight") else n: s for n, s in made.shapes.items()}
    assert codes(made.look()) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rope_theta": 10000.0}, "rope-differs"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope-differs"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, "rope-differs"),
        ({"max_position_embeddings": 2048}, "max-position"),
        ({"vocab_size": 128000}, "vocab-differs"),
        ({"hidden_size": 2048}, "hidden-size-differs"),
    ],
)
def test_the_drafter_of_another_target(made: Made, changes: dict[str, Any], code: str) -> None:
    made.config.update(changes)
    if code not in ("vocab-differs", "hidden-size-differs"):
        assert codes(made.look()) == [code]
    else:
        made.shapes = shapes_of(made.config)
        assert code in codes(made.look())


def test_pipeline_parallel(made: Made) -> None:
    made.profile["extra_args"] = ("--pp-size", "2")
    assert codes(made.look()) == ["pipeline-parallel"]


def test_a_cut_off_file_is_named(made: Made, tmp_path: Path) -> None:
    made.look()
    path = tmp_path / "draft/model.safetensors"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    report = look(profile_of(tmp_path / "target", tmp_path / "draft"))
    assert codes(report) == ["draft-unreadable"]


def test_what_is_not_there_is_said_not_to_be_read(tmp_path: Path) -> None:
    profile = profile_of(Path("/no/such/target"), Path("/no/such/draft"))
    report = look(profile)
    assert codes(report) == []
    assert {"target", "draft"} <= set(report.unread)
