"""Evidence without a command says what it follows from: other evidence, files, a run, or that nobody recorded it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.ledger import Ledger, open_ledger
from helpers.ledger.grounds import folders, grounds
from helpers.ledger.recipe import FOLDER, recipe
from helpers.ledger.results import Summary, summarise
from helpers.paths import DATA
from helpers.serving import get_profile
from helpers.source.archaeology import Site, Sites
from helpers.source.reading import Statement, WiringReport
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.ranks import RankView
from helpers.wiring.replay.ablation import Ablation
from helpers.wiring.replay.result import Rated, Versus

DUMP = DATA / "lab" / "dump"


class Seen:
    """A result of a kind, with what a reader of results gives."""

    def __init__(self, source: str, **more: Any) -> None:
        self.summary = Summary(source, f"some {source}", "seen", **more)

    def __evidence__(self) -> Summary:
        return self.summary


def capture(ledger: Ledger, name: str) -> Seen:
    """A capture's folder, as far as a ledger looks at it."""
    home = ledger.folder / "captures" / name
    home.mkdir(parents=True)
    for file in ("capture.json", "rank0.safetensors"):
        (home / file).write_text(name)
    return Seen("capture", files=tuple((path, None) for path in sorted(home.iterdir())), run=f"{name}-1")


def figure(title: str = "norms") -> go.Figure:
    return go.Figure(layout={"title": {"text": title}})


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv(FOLDER, str(tmp_path / "found"))
    return open_ledger("case")


def measured(name: str, **more: Any) -> Measurement:
    told = {"dtype": "float32", "aux_layer_ids": [1], "boundaries": [2], "requests": 4, "tokens_per_s": 9.0}
    return Measurement(name=name, greedy_equal=None, first_difference=None, **{**told, **more})


def test_a_figure_of_a_capture_and_a_dump_names_both(ledger: Ledger) -> None:
    served, other = capture(ledger, "a"), capture(ledger, "b")
    dump = read_dump(DUMP)
    first = ledger.evidence(served, title="capture a", of=dump)
    ledger.evidence(other, title="capture b", of=dump)
    of_both = ledger.evidence(figure(), title="figure", of=[served, dump])
    kept = next(file.path for file in of_both.files if file.path.startswith("evidence/"))
    assert grounds(ledger, of_both) == f"a figure; made of {first.id} (capture); kept as {kept}"
    alone = ledger.evidence({"ratio": 1.0}, title="numbers", of=dump)
    assert grounds(ledger, alone) == "numbers; made of 12 files of checkout:data/lab/dump"


def test_evidence_that_it_was_made_of_is_kept_by_its_id_as_it_is_now(ledger: Ledger) -> None:
    first = ledger.evidence({"rate": 0.2, "n": 9}, title="rates", run="right-1")
    made = ledger.evidence({"mean": 0.2}, title="mean", of=first)
    assert (made.made_of, made.run, made.n, made.files) == ((first.id,), "right-1", 9, ())
    assert ledger.evidence({"mean": 0.2}, title="mean", of=first).id == made.id, "a cell that runs again"
    assert grounds(ledger, made) == f"numbers; made of {first.id} (values)"
    again = ledger.evidence({"rate": 0.3, "n": 9}, title="rates", run="right-1")
    assert grounds(ledger, made) == f"numbers; made of {again.id} (values)"
    text = ledger.evidence("seen by eye", of=made)
    assert grounds(ledger, text) == f"words that somebody wrote down; of {made.id} (values)"


def test_a_difference_names_the_measurements_of_both_sides(ledger: Ledger) -> None:
    h = ledger.hypothesis("c", key="fix", prediction="p", threshold="t")
    pair = PairedDifference(first="mended", second="miswired", difference=0.3, ci95=(0.2, 0.4), requests=4)
    e = ledger.evidence(pair, on=h, title="pair")
    assert grounds(ledger, e) == "a difference; of what it was made is not recorded"
    ledger.evidence(measured("miswired"), title="on nothing")
    ids = [ledger.evidence(measured(name), on=h, title=name).id for name in ("mended", "miswired")]
    ledger.evidence(measured("miswired"), title="on nothing, later")
    assert grounds(ledger, e) == f"a difference; made of {', '.join(f'{id} (measurement)' for id in ids)}"


def test_a_run_is_the_last_that_is_looked_at(ledger: Ledger) -> None:
    e = ledger.evidence({"x": 1}, title="x", run="mended-1")
    assert grounds(ledger, e) == "numbers; made of what run mended-1 gave"
    rate = ledger.evidence(measured("mended", run="mended-1, mended-2"), title="rate")
    assert grounds(ledger, e) == f"numbers; made of {rate.id} (measurement)"


def test_what_nothing_is_made_of_says_what_it_is(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "found" / "case").mkdir(parents=True, exist_ok=True)
    file = ledger.folder / "log\nrm -rf"
    file.write_text("x")
    for result, said in (
        (file, "a file as it is; log␊rm -rf"),
        ("somebody saw it", "words that somebody wrote down"),
        (get_profile("right"), "a configuration as it was asked for"),
    ):
        e = ledger.evidence(result)
        assert grounds(ledger, e) == said
        assert f"#   {e.id}: {said}" in recipe(ledger), "one line, whatever its name holds"
    assert folders(["a/x", "a/y", "z"]) == ["2 files of a", "z"]


def test_results_that_know_their_call_bring_it() -> None:
    said = Statement("a2a", False, "off")
    report = WiringReport("box", "0.5.9", "Deepseek", (said,))
    sites = Sites("f", "lab", "/x", "0.5.9", (Site("a b.py", 3, 9, "function", "f", "def f():", "0"),), 1, ())
    one = Rated(taps=[0, 2], accept_rate=0.3, ci95=(0.2, 0.4), verify_steps=9, accept_length=1.9)
    gain = Versus(
        **{**dict(one), "taps": [1, 2]}, replayed=one, requests=4, difference=0.1, difference_ci95=(0, 1), new_tokens=48
    )
    replay = "workbook replay --draft DRAFT --target TARGET --capture CAPTURE"
    wiring = "workbook preflight BOX --profile PROFILES --name PROFILE --wiring"
    for result, command in (
        (said, wiring),
        (report, wiring),
        (sites, "workbook show lab 'a b.py' 3:9"),
        (gain, f"{replay} --taps 0,2 --new-tokens 48"),
        (RankView(ranks=2, equal=True), "workbook diagnose --served CAPTURE --train DUMP --json"),
        (SGLANG_059_DEEPSEEK, "workbook boundaries --engine sglang==0.5.9 --model deepseek_v2 --layers LAYERS"),
        ([measured("a"), measured("b")], " && ".join(str(summarise(measured(name)).command) for name in "ab")),
        ([measured("a"), {"x": 1}], None),
    ):
        assert summarise(result).command == command


def test_the_profile_of_a_statement_comes_from_its_preflight(ledger: Ledger) -> None:
    profile, said = get_profile("miswired"), Statement("a2a", False, "off")
    e = ledger.evidence(said, of=profile, places={"BOX": "lab", "PROFILES": "my.toml"})
    assert e.command == "workbook preflight lab --profile my.toml --name miswired --wiring"
    assert 'workbook preflight "$BOX" --profile "$PROFILES" --name miswired --wiring' in recipe(ledger)


def test_an_ablation_has_the_command_of_its_replay(ledger: Ledger) -> None:
    change = {"slot": 0, "change": "zeros", "taps": ["zeros", 2], "accept_rate": 0.1, "accept_length": 1.1}
    cost = Ablation(**change, difference=-0.1, ci95=(-0.2, 0.0), cross_entropy_difference=None, cross_entropy_ci95=None)
    ledger.evidence(Seen("replay", command="workbook replay --draft D --capture C --taps 0,2", run="r-1"))
    ledger.evidence([cost, cost], title="costs", run="r-1")
    lines = recipe(ledger)
    assert [line for line in lines if "--ablate" in line] == [
        'workbook replay --draft "$DRAFT" --capture "$CAPTURE" --ablate'
    ]
    assert not [line for line in lines if "no command of their own" in line]


def test_evidence_of_the_same_stands_on_one_line(ledger: Ledger) -> None:
    first = ledger.evidence({"rate": 0.2}, title="rates")
    ids = [ledger.evidence({"x": x}, title=f"x {x}", of=first).id for x in range(3)]
    assert f"#   {', '.join(ids)}: numbers; made of {first.id} (values)" in recipe(ledger)
