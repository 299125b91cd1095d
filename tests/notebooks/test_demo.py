"""Notebook 00 from top to bottom, as `make demo` runs it, and what its report says."""

from __future__ import annotations

import re
import sys

import pytest
from demo_run import ROOT, DemoRun
from leftovers import processes_with

pytestmark = pytest.mark.timeout(1000)

SPECULATIVE = ("right", "miswired", "off-by-one", "mended")


def test_it_ends_well_and_prints_the_table_and_both_paths(demo: DemoRun) -> None:
    assert demo.exit_code == 0, demo.stderr[-3000:]
    for name in ("baseline", *SPECULATIVE):
        assert re.search(rf"^{name} .* equal$", demo.stdout, re.M), demo.stdout
    assert "report.html" in demo.stdout
    assert "report.json" in demo.stdout


def test_progress_is_visible_throughout(demo: DemoRun) -> None:
    for stage in ("starting", "ready, port", "request 1 of 32", "32 requests answered", "captured into", "reverted"):
        assert stage in demo.stderr


def test_no_process_is_left(demo: DemoRun) -> None:
    assert processes_with(str(demo.home)) == []


def test_the_patch_is_reverted(demo: DemoRun) -> None:
    source = demo.home / "home/sglang/python/sglang/srt/models/deepseek_v2.py"
    assert "capture_embedding_for_eagle3" not in source.read_text()


def test_greedy_text_is_the_baselines_everywhere(demo: DemoRun) -> None:
    assert [p["name"] for p in demo.report["profiles"]] == ["baseline", *SPECULATIVE]
    assert all(p["greedy_equal"] for p in demo.report["profiles"])
    base = demo.profile("baseline")
    assert (
        base["accept_rate"] is base["accept_length"] is base["ci95"] is base["survival"] is base["verify_steps"] is None
    )


def test_there_are_enough_verify_steps(demo: DemoRun) -> None:
    assert all(demo.profile(name)["verify_steps"] >= 300 for name in SPECULATIVE)


def test_right_is_far_above_miswired(demo: DemoRun) -> None:
    right, wrong = demo.profile("right"), demo.profile("miswired")
    assert right["accept_rate"] - wrong["accept_rate"] > 0.25
    assert right["ci95"][0] > wrong["ci95"][1]
    assert right["survival"] == sorted(right["survival"], reverse=True)


def test_right_is_above_off_by_one_in_a_paired_comparison(demo: DemoRun) -> None:
    pair = next(c for c in demo.report["comparisons"] if c["second"] == "off-by-one")
    assert pair["first"] == "right"
    assert pair["ci95"][0] > 0


def test_the_diagnosis_names_the_fault_and_the_ids_that_mend_it(demo: DemoRun) -> None:
    diagnosis = demo.report["diagnosis"]
    assert diagnosis["schema"] == "workbook.diagnosis/1"
    assert diagnosis["verdict"] == "mismatch"
    codes = {(f["code"], f["slot"]) for f in diagnosis["findings"] if f["severity"] == "error"}
    assert codes == {("slot-embedding", 0), ("slot-wrong", 1), ("slot-wrong", 2)}
    assert [s["served"]["boundary"] for s in diagnosis["slots"]] == [0, 2, 5]
    assert [s["trained"]["boundary"] for s in diagnosis["slots"]] == [2, 5, 9]
    assert diagnosis["fix"]["aux_layer_ids"] == demo.profile("right")["aux_layer_ids"]


def test_the_off_by_one_server_is_named_by_its_taps(demo: DemoRun) -> None:
    off = demo.report["diagnoses"]["off-by-one"]
    assert off["verdict"] == "mismatch"
    assert [(f["code"], f["evidence"]["offset"]) for f in off["findings"]] == [("slot-offset", -1)]
    assert off["fix"]["aux_layer_ids"] == demo.profile("right")["aux_layer_ids"]


def test_the_mended_server_is_as_good_as_right(demo: DemoRun) -> None:
    mended, right = demo.profile("mended"), demo.profile("right")
    assert mended["aux_layer_ids"] == demo.report["diagnosis"]["fix"]["aux_layer_ids"]
    assert mended["histogram"] == right["histogram"]


def test_the_words_blame_no_slot_alone(demo: DemoRun) -> None:
    words = " ".join(demo.report["summary"])
    assert "Boundary 9 reaches no slot" in words
    assert "not measured" in words
    assert "no forecast" in words or "is not shown here" in words, "every server was started once"


def test_the_readmes_picture_shows_the_words_of_this_demo(demo: DemoRun) -> None:
    """Its figures may be of another run; what it says is not older than the code. `make picture` takes it again."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from picture import PICTURE, words, words_of
    finally:
        sys.path.pop(0)
    # The last two lines are about speed, and their words depend on how fast the machine was.
    assert words_of(PICTURE.read_bytes()).splitlines()[:4] == words(demo.report["summary"][:4]).splitlines()


def test_the_report_names_no_place_of_this_machine(demo: DemoRun) -> None:
    for name in ("report.html", "report.json"):
        assert str(demo.home) not in (demo.folder / name).read_text()
