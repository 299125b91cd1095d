"""What each kind of result says of itself in a ledger: title, figures, n, run, where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.acceptance.sweep_results import Sweep
from helpers.acceptance.versus import SpeedRatio, Versus
from helpers.ledger.results import Summary, summarise
from helpers.ledger.results.serving import profile_hash
from helpers.paths import DATA
from helpers.serving import get_profile
from helpers.serving.preflight.finding import found
from helpers.serving.preflight.report import Preflight
from helpers.serving.records import RunRecord
from helpers.source.excerpts import Excerpt, Line
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK

MEASURED = Measurement(
    name="right",
    dtype="float32",
    aux_layer_ids=[1, 4, 8],
    boundaries=[2, 5, 9],
    accept_length=2.81,
    accept_rate=0.604,
    ci95=(0.54, 0.67),
    verify_steps=728,
    requests=32,
    tokens_per_s=120.0,
    greedy_equal=None,
    first_difference=None,
    run="right-1",
)
PAIR = PairedDifference(first="right", second="miswired", difference=0.388, ci95=(0.33, 0.45), requests=32)


def test_a_measurement_and_a_comparison() -> None:
    one = summarise(MEASURED)
    assert one.summary == "accept rate 0.604 [0.540, 0.670], accept length 2.81, 120.0 tokens/s"
    assert (one.n, one.unit, one.run, one.profile) == (728, "verify steps", "right-1", "right")
    assert "DIFFERS" in summarise(MEASURED.model_copy(update={"greedy_equal": False})).summary
    words = "accept rate of right minus that of miswired: +38.8 points [+33.0, +45.0], paired over 32 prompts"
    assert summarise(PAIR).summary == words
    two = Versus(
        candidate="right",
        baseline="base",
        speed=SpeedRatio(ratio=1.7, ci95=(1.6, 1.8), pairs=1, prompts=32),
        greedy_equal=True,
        compared=32,
        differing=0,
        first=None,
        accept_rate=PAIR,
    )
    said = summarise(two)
    assert said.summary.startswith("1.70 [1.60, 1.80] times the tokens/s; accept rate of right minus")
    assert (said.n, said.unit) == (32, "prompts")
    several = summarise([MEASURED, MEASURED])
    assert (several.source, several.n, len(several.values["results"])) == ("measurement", 1456, 2)


def test_a_measured_server_has_the_patches_that_were_in() -> None:
    """Its settings name them without their hashes, as a profile's do: two servers may differ in nothing else."""
    one = summarise(MEASURED.model_copy(update={"patches": ["capture-embedding@0123456789ab"]}))
    assert (one.patches, one.config["right"]["patches"]) == (
        ("capture-embedding@0123456789ab",),
        ["capture-embedding"],
    )
    stock = summarise(MEASURED.model_copy(update={"patches": []}))
    assert (stock.patches, stock.config["right"]["patches"]) == ((), [])
    assert "patches" not in summarise(MEASURED).config["right"]  # of a row that was kept before they were


def test_a_run_has_the_patches_that_were_in_and_not_those_that_its_profile_asks_for() -> None:
    told = {"argv": [], "env": {}, "host": "127.0.0.1", "port": 1, "owner": "ann@x", "code": "c", "started": "now"}
    told |= {"id": "right-1", "pid": 2, "pgid": 2, "start_time": 3, "boot_id": "b"}
    told |= {"engine": {"name": "sglang", "version": "0.5.9", "checkout": "/s", "python": "python3"}}
    left = {"name": "capture-embedding", "sha256": "0123456789ab" + "0" * 52, "files": {}}
    one = summarise(RunRecord.model_validate({**told, "profile": get_profile("right"), "patches": [left]}))
    assert one.config["right"]["patches"] == ["capture-embedding"]
    assert one.patches == ("capture-embedding@0123456789ab",)


def test_a_configuration_is_known_by_its_settings_not_its_name() -> None:
    profile = get_profile("miswired")
    renamed = profile.model_copy(update={"name": "x", "note": "y"})
    assert profile_hash(profile) == profile_hash(renamed)
    assert profile_hash(profile) != profile_hash(profile.model_copy(update={"aux_layer_ids": (1, 4, 8)}))
    secret = profile.model_copy(update={"env": {"HF_TOKEN": "hf_AbCdEfGhIjKl"}})
    assert summarise(secret).config["miswired"]["env"] == {"HF_TOKEN": "***"}


def test_lines_of_source_and_a_preflight() -> None:
    line = Line("sglang/x.py", 7, "return val + 1")
    excerpt = Excerpt("lab", "/srv", "0.5.9", "sglang/x.py", "ab" * 32, (line,), "workbook show lab sglang/x.py 7")
    one = summarise(excerpt)
    assert (one.source, one.versions, one.command) == ("source", {"sglang": "0.5.9"}, excerpt.command)
    assert one.summary == excerpt.permalink
    report = Preflight("p", "lab", "0.5.9", (found("ids-never-fire", "error", "x", line),), {}, None)
    assert summarise(report).summary == "ids-never-fire (error)"


def test_a_dump_and_a_rule() -> None:
    dump = summarise(read_dump(DATA / "lab" / "dump"))
    assert (dump.n, dump.unit, len(dump.files)) == (12, "samples", 12)
    assert summarise(SGLANG_059_DEEPSEEK).source == "rule"


def test_what_a_result_was_made_of_fills_what_it_does_not_know() -> None:
    capture = Summary("capture", "c", "c", run="r1", n=9, unit="tokens", patches=("a@1f",), places={"CAPTURE": "x y"})
    made = Summary(
        "diagnosis", "d", "d", patches=("a",), command="workbook diagnose --served CAPTURE", n=5, unit="rows"
    )
    one = made.within(capture)
    assert (one.run, one.n, one.unit, one.patches) == ("r1", 5, "rows", ("a@1f",))
    assert one.command == "workbook diagnose --served x y"
    assert Summary("figure", "f", "f").within(capture).n == 9


def test_a_sweep_rests_on_its_rows(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("{}\n")
    one = summarise(Sweep(tmp_path, (), ("p1",)))
    assert (one.summary, one.files) == ("1 missing", ((tmp_path / "results.jsonl", None),))


def test_a_class_of_ones_own_speaks_for_itself() -> None:
    class Own:
        def __evidence__(self) -> Summary:
            return Summary("own", "mine", "42", n=42)

    assert summarise(Own()).n == 42
    with pytest.raises(Exception, match="WB-LEDGER-RESULT"):
        summarise(object())
