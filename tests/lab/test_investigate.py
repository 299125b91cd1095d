"""`workbook investigate` on the lab's real servers: the miswired one and the right one, from nothing to the report."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from leftovers import gone

from helpers.box import Box
from helpers.cli import main
from helpers.ledger import read_ledger
from helpers.ledger.check import verify
from helpers.magics import WorkbookMagics
from helpers.paths import DATA, ROOT
from helpers.serving import find_runs, load_profiles, plan
from helpers.tensors.capture import read_capture

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("profile", ["miswired", "right"])
def test_one_command_from_a_profile_to_the_cause(
    box: Box, lab_home: Path, found: Path, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["investigate", "lab", profile, "--train", str(DATA / "lab" / "dump"), "--name", profile, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert "error" not in told, told
    ledger = read_ledger(profile)
    standing = {h.key: ledger.state.standing(h.id) for h in ledger.hypotheses}
    rest = dict.fromkeys(("order", "tp-shard", "a2a-gather", "token-shift", "form"), "refuted")
    if profile == "miswired":
        assert ended.value.code == 1
        assert [f["code"] for f in told["findings"]] == ["slot-embedding", "slot-wrong", "slot-wrong"]
        assert told["fix"]["aux_layer_ids"] == [1, 4, 8]
        assert standing == {"ids": "confirmed", "fix": "confirmed", "fc-order": "inconclusive", **rest}
        both = next(line for line in told["summary"] if line.startswith("As trained (taps 2, 5, 9) against as served"))
        assert both.count("verify steps)") == 2, "each rate with its n"
        assert "with the taps 2, 5, 9" in both
        assert "with the taps 0, 2, 5" in both
        assert "paired over" in both
        assert "12 texts of the dump, of each up to where a span of training's loss mask begins (12)." in both
        own, written = map(int, re.findall(r"(\d+) of these (\d+) tokens are the dump's own", both)[0])
        # The dump's own continuations are 32 of the 40 tokens, greedy like the server's, but in another arithmetic.
        assert 12 * 16 < own <= 12 * 32
        assert own < written <= 12 * 40
        assert "if the drafter was trained on them, both rates are flattered" in both
    else:
        assert ended.value.code == 0
        assert [f["code"] for f in told["findings"]] == ["features-match"]
        assert standing == {"ids": "refuted", "fc-order": "refuted", **rest}
    for h in ledger.hypotheses:
        verdict = ledger.verdict_on(h)
        assert verdict is not None
        assert verdict.because
    assert {"facts", "preflight", "run", "capture", "diagnosis", "figure", "replay"} <= {
        e.source for e in ledger.evidence_on()
    }
    captures = [e for e in ledger.evidence_on() if e.source == "capture"]
    assert [e.title for e in captures] == [f"capture of {profile}", f"capture of answers of {profile}"]
    whole, answers = (read_capture(ledger.folder / "captures" / e.values["capture"]) for e in captures)
    assert {r.prompt_tokens for r in whole.info.requests} == {128}
    assert {r.prompt_tokens for r in answers.info.requests} == {96}
    assert answers.info.sampling["natural_end"]
    assert len(answers.ranks[0].boundaries) < len(whole.ranks[0].boundaries)
    assert verify(ledger.folder).problems == ()
    page = (ledger.folder / "report.html").read_text()
    assert page.count('class="plotly-graph-div"') == 3
    assert (ledger.folder / "report.md").read_text().startswith(f"# What is the drafter of {profile} fed?")
    assert str(lab_home) not in page
    # As it was before: no server, no patch.
    assert find_runs(box, alive=True) == []
    assert gone(f"WORKBOOK_RUN={told['run']}") == []


def test_lines_of_the_served_source_are_shown_and_kept(box: Box, found: Path) -> None:
    """The magic itself, where an engine is."""
    magics = WorkbookMagics(InteractiveShell())
    try:
        magics.ledger("case")
        excerpt = magics.box_show("sglang/srt/models/deepseek_v2.py 1:3 --as 'the head of the model file'")
    finally:
        magics.close()
    assert excerpt.numbers == [1, 2, 3]
    (kept,) = read_ledger("case").evidence_on()
    assert (kept.title, kept.versions["sglang"]) == ("the head of the model file", "0.5.9")
    assert kept.summary == excerpt.permalink


@pytest.mark.full
def test_an_interrupt_leaves_no_server_and_says_where_what_was_found_lies(box: Box, found: Path) -> None:
    words = ["investigate", "lab", "miswired", "--train", str(DATA / "lab" / "dump"), "--name", "cut"]
    with subprocess.Popen(
        [sys.executable, "-m", "helpers.cli", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "weights" in line:
                process.send_signal(signal.SIGINT)
                break
        _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "what was found until then: workbook ledger show cut\n" in told
    assert find_runs(box, alive=True) == []
    assert plan(box, load_profiles()["miswired"], unpatched=True).missing, "the patch is out again"
    assert [e.source for e in read_ledger("cut").evidence_on()] == ["facts", "preflight"]
