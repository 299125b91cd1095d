"""The ledger as a notebook uses it: claims before evidence, verdicts because of it, cells that run again."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from helpers.box.result import CommandResult
from helpers.errors import UsageError
from helpers.ledger import Ledger, ledgers, open_ledger, read_ledger
from helpers.ledger.check import verify
from helpers.ledger.showing import EVIDENCE_COLUMNS, HYPOTHESIS_COLUMNS, evidence_rows, hypothesis_rows

STATED = {"prediction": "a slot is another boundary", "threshold": "any slot finding"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    return open_ledger("case", title="Why is the drafter accepted so rarely?")


def test_claim_evidence_verdict(ledger: Ledger) -> None:
    h = ledger.hypothesis("the ids feed other layers", **STATED)
    e = ledger.evidence({"cosine": 0.31, "n": 1200}, on=h, supports=True, title="slot 0 against boundary 3")
    v = ledger.verdict(h, "confirmed", because=[e], reason="slot 0 is boundary 0")
    assert (h.id, e.id, v.id) == ("H1", "E1", "V1")
    assert (e.n, e.summary, e.bearing) == (1200, "cosine 0.31, n 1200", "supports")
    row = ledger.table().loc["H1"]
    assert (row["verdict"], row["because"], row["supports"]) == ("confirmed", "E1", "E1")
    assert read_ledger("case").verdict_on("the ids feed other layers") == v
    assert ledgers() == ["case"]
    assert verify(ledger.folder).good


def test_a_note_is_shown_with_its_evidence_as_a_sentence_of_its_own(ledger: Ledger) -> None:
    """It is often the reason why evidence bears as it does; without it the summary may read as the opposite."""
    h = ledger.hypothesis("each rank sees its own tokens", **STATED)
    given = {"on": h, "supports": False, "title": "the branch", "note": "moe_a2a_backend of the launch: none"}
    e = ledger.evidence({"summary": "a tap is gathered", "n": 1}, **given)
    for text in (e._repr_html_(), ledger._repr_html_(), repr(ledger)):
        assert "a tap is gathered. moe_a2a_backend of the launch: none" in text
    assert ledger.evidence_table().loc["E1", "summary"] == "a tap is gathered. moe_a2a_backend of the launch: none"


def test_a_cell_that_runs_again_adds_nothing(ledger: Ledger) -> None:
    for _ in range(2):  # as two notebooks would, each with its own object
        again = open_ledger("case", title="Why is the drafter accepted so rarely?")
        h = again.hypothesis("the ids feed other layers", **STATED)
        figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]), layout={"title": {"text": "Ladder"}})
        e = again.evidence(figure, on=h, supports=True)
        again.verdict(h, "confirmed", because=[e], reason="because")
        again.note("the ids were changed on Monday", about="trigger")
    assert [entry.kind for entry in again.entries] == ["opened", "hypothesis", "evidence", "verdict", "note"]


def test_another_result_under_the_same_title_takes_the_older_ones_place(ledger: Ledger) -> None:
    h = ledger.hypothesis("the ids feed other layers", **STATED)
    first = ledger.evidence({"rate": 0.2}, on=h, supports=True, title="acceptance", run="miswired-1")
    ledger.verdict(h, "confirmed", because=[first], reason="low")
    second = ledger.evidence({"rate": 0.2}, on=h, supports=True, title="acceptance", run="miswired-2")
    assert (second.id, second.replaces) == ("E2", "E1")
    assert [e.id for e in ledger.evidence_on(h)] == ["E2"]
    assert [e.id for e in ledger.evidence_on(h, replaced=True)] == ["E1", "E2"]
    assert ledger.table().loc["H1", "look again"] == "E1 was replaced by E2"
    # The kernel still holds the old object: the verdict is about what stands under that title now.
    assert ledger.verdict(h, "confirmed", because=[first], reason="low").because == ("E2",)
    assert ledger.table().loc["H1", "look again"] == ""


def test_a_verdict_needs_evidence_that_points_that_way(ledger: Ledger) -> None:
    h = ledger.hypothesis("a", **STATED)
    other = ledger.hypothesis("b", **STATED)
    for outcome in ("confirmed", "refuted", "inconclusive"):
        with pytest.raises(UsageError, match="WB-LEDGER-NO-EVIDENCE: H1 has no evidence yet"):
            ledger.verdict(h, outcome, reason="I think so")
    against = ledger.evidence({"x": 1}, on=h, supports=False, title="x")
    with pytest.raises(UsageError, match=r"nothing that supports H1 .*E1 contradicts"):
        ledger.verdict(h, "confirmed", reason="I think so")
    with pytest.raises(UsageError, match="E1 does not bear on H2"):
        ledger.verdict(other, "refuted", because=[against], reason="I think so")
    with pytest.raises(UsageError, match="WB-LEDGER-UNKNOWN: 'E7'"):
        ledger.verdict(h, "refuted", because=["E7"], reason="I think so")
    assert ledger.verdict(h, "refuted", reason="x is 1").because == ("E1",)


def test_a_hypothesis_comes_with_prediction_and_threshold(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="WB-LEDGER-PREDICTION"):
        ledger.hypothesis("the ids feed other layers", prediction="something")
    h = ledger.hypothesis("the ids feed other layers", key="ids", **STATED)
    assert ledger.hypothesis("the ids feed other layers") == h  # another notebook takes it up
    assert ledger.get("ids") == h
    with pytest.raises(UsageError, match=r"'order' .*expected: one of H1 \(ids\)|WB-LEDGER-UNKNOWN: 'order'"):
        ledger.get("order")


def test_a_changed_threshold_is_kept_with_the_evidence_that_was_there(ledger: Ledger) -> None:
    h = ledger.hypothesis("a", prediction="p", threshold="above 0.9")
    ledger.evidence({"x": 0.85}, on=h, supports=False, title="x")
    changed = ledger.hypothesis("a", prediction="p", threshold="above 0.8", reason="0.9 was a slip")
    assert (changed.id, changed.threshold) == ("H1", "above 0.8")
    (amendment,) = ledger.state.amendments("H1")
    assert (amendment.was, amendment.now, amendment.after) == ("above 0.9", "above 0.8", ("E1",))
    assert ledger.amend(h, threshold="above 0.8", reason="the same") == changed
    assert len(ledger.state.amendments("H1")) == 1
    assert "changed after E1" in ledger._repr_html_()


def test_a_file_that_changed_makes_its_evidence_stale(ledger: Ledger, tmp_path: Path) -> None:
    h = ledger.hypothesis("a", **STATED)
    file = tmp_path / "server.log"
    file.write_text("accept len 1.6")
    e = ledger.evidence(file, on=h, supports=True)
    assert e.files[0].path == "../server.log"
    assert ledger.stale(e) == []
    file.write_text("accept len 2.6")
    assert [f.path for f in ledger.stale(e)] == ["../server.log"]
    assert ledger.evidence_table().loc["E1", "stale"] == "../server.log"
    with pytest.raises(UsageError, match="WB-LEDGER-STALE"):
        ledger.verdict(h, "confirmed", because=[e], reason="low")
    assert [(p.entry, p.file) for p in verify(ledger.folder).problems] == [("E1", "../server.log")]
    file.unlink()
    assert "is gone" in str(verify(ledger.folder))
    with pytest.raises(UsageError, match=r"WB-LEDGER-FILE: .*server\.log"):
        ledger.evidence(file, on=h, title="log")


def test_secrets_are_masked_before_they_are_written(ledger: Ledger) -> None:
    secret = "hf_AbCdEfGhIjKl"
    done = CommandResult(
        argv=("env", f"HF_TOKEN={secret}", "python3", "--api-key", "s3cretvalue"),
        command=f"env HF_TOKEN={secret} python3 --api-key s3cretvalue",
        exit_status=0,
        stdout=f"login with {secret}\n",
        stderr="Authorization: Bearer s3cretvalue\n",
        seconds=0.5,
        bytes_stdout=1,
        bytes_stderr=1,
        box="lab",
        started="2026-01-31T10:00:00+00:00",
    )
    h = ledger.hypothesis(f"the token is {secret}", prediction=f"HF_TOKEN={secret}", threshold="x")
    ledger.evidence(done, on=h, title=f"run with {secret}")
    ledger.evidence({"api_key": "s3cretvalue", "log": [f"token={secret}"]}, note=f"pw: http://u:{secret}@host/")
    ledger.evidence(pd.DataFrame({"line": [f"HF_TOKEN={secret}"]}), title="log lines")
    ledger.evidence(go.Figure(layout={"title": {"text": secret}}), title="figure")
    ledger.evidence("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n" * 20)
    written = [p.read_text() for p in ledger.folder.rglob("*") if p.is_file()]
    assert len(written) > 4
    for text in written:
        assert secret not in text
        assert "s3cretvalue" not in text
        assert "PRIVATE KEY-----\nabc" not in text


def test_what_cannot_be_evidence_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="WB-LEDGER-RESULT"):
        ledger.evidence(object())
    with pytest.raises(UsageError, match="an empty list"):
        ledger.evidence([])
    with pytest.raises(UsageError, match="WB-LEDGER-UNKNOWN"):
        ledger.evidence({"x": 1}, on="H9")
    assert ledger.entries == []


def test_a_look_at_an_investigation_makes_none(ledger: Ledger) -> None:
    """As the last notebook does, run first: nothing is written, and every table has its columns."""
    assert list(ledger.table().reset_index()) == list(HYPOTHESIS_COLUMNS)
    assert list(ledger.evidence_table().reset_index()) == list(EVIDENCE_COLUMNS)
    assert ledger.title == "Why is the drafter accepted so rarely?"
    for shown in (str(verify(ledger.folder)), repr(ledger), ledger._repr_html_()):
        assert "nothing is recorded yet" in shown
    with pytest.raises(UsageError, match="WB-LEDGER-PREDICTION"):
        ledger.hypothesis("a claim")
    assert (ledger.folder.exists(), ledgers()) == (False, [])
    assert "Nothing is recorded yet" in json.loads(ledger.report().json.read_text())["summary"][0]
    assert ledgers() == []


def test_a_note_is_shown_with_its_evidence(ledger: Ledger) -> None:
    """It may be the reason why the evidence points where it does."""
    h = ledger.hypothesis("a", **STATED)
    e = ledger.evidence({"x": 1}, on=h, supports=False, title="x", note="backend <none>")
    assert "backend <none>" in repr(ledger)
    for shown in (ledger._repr_html_(), e._repr_html_()):
        assert "backend &lt;none&gt;" in shown


def test_a_note_without_words_is_not_told(ledger: Ledger) -> None:
    """As a notebook's parameter that was left empty."""
    for about in ("trigger", "limit"):
        ledger.note(" ", about=about)
    told = (ledger.report().markdown or Path()).read_text()
    assert "Trigger: what set it off is not recorded." in told
    assert "None was written down." in told


def test_the_tables_have_the_columns_that_they_name(ledger: Ledger) -> None:
    h = ledger.hypothesis("a", **STATED)
    ledger.evidence({"x": 1}, on=h, title="x")
    assert list(hypothesis_rows(ledger)[0]) == list(HYPOTHESIS_COLUMNS)
    assert list(evidence_rows(ledger)[0]) == list(EVIDENCE_COLUMNS)
    assert [entry.kind for entry in ledger.entries] == ["opened", "hypothesis", "evidence"]
    assert open_ledger("case").title == "Why is the drafter accepted so rarely?"


def test_a_ledger_that_is_gone_shows_against_its_report(ledger: Ledger) -> None:
    ledger.note("a fact")
    ledger.report()
    (ledger.folder / "ledger.jsonl").unlink()
    (problem,) = verify(ledger.folder).problems
    assert "there are 0" in problem.what


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "-x"])
def test_a_name_is_a_folders(name: str) -> None:
    with pytest.raises(UsageError, match="WB-LEDGER-NAME"):
        open_ledger(name)


def test_a_ledger_that_is_not_there_is_named_with_those_that_are(ledger: Ledger) -> None:
    ledger.note("begun")
    with pytest.raises(UsageError, match="WB-LEDGER-MISSING") as caught:
        read_ledger("other")
    assert caught.value.expected == "one of case"


def test_odd_values_are_kept_readable(ledger: Ledger) -> None:
    e = ledger.evidence({"x": float("nan"), "b": "\udcff\x00", "t": (1, 2)}, title="odd </script>")
    assert e.values == {"x": "nan", "b": "\N{REPLACEMENT CHARACTER}\N{SYMBOL FOR NULL}", "t": [1, 2]}
    for line in (ledger.folder / "ledger.jsonl").read_text().splitlines():
        json.loads(line)
    assert "</script>" not in ledger._repr_html_()
    assert ledger.evidence({"x": float("nan"), "b": "\udcff\x00", "t": (1, 2)}, title="odd </script>") == e
