"""`workbook ledger verify|show|list`: exit codes, the entry and the file by name, one JSON object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.cli import main
from helpers.ledger import open_ledger


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["ledger", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


@pytest.mark.parametrize("words", [("ledger", "verify"), ("ledger", "show"), ("report",)])
def test_an_investigation_without_a_ledger_names_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """As the demo of notebook 00 leaves it."""
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "report.html").write_text("<html></html>")
    with pytest.raises(SystemExit) as ended:
        main([*words, "demo", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (ended.value.code, error["code"]) == (2, "WB-LEDGER-MISSING")
    assert "keeps no ledger" in error["message"]
    assert str(tmp_path / "demo" / "report.html") in error["next"]


def test_verify_show_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    ledger = open_ledger("case")
    h = ledger.hypothesis("a claim", prediction="p", threshold="t")
    e = ledger.evidence("x" * 1000, on=h, supports=True, title="a log")
    assert run(capsys, "list") == (0, "case\n")
    code, text = run(capsys, "show", "case")
    assert (code, "H1 OPEN: a claim" in text, "E1 supports: a log" in text) == (0, True, True)
    code, text = run(capsys, "show", "case", "--json")
    assert [entry["kind"] for entry in json.loads(text)["entries"]] == ["opened", "hypothesis", "evidence"]
    assert run(capsys, "verify", "case")[0] == 0
    kept = ledger.path(e.files[0])
    kept.write_bytes(kept.read_bytes()[:-1] + b"y")
    code, text = run(capsys, "verify", "case")
    assert (code, f"line 3 E1 {e.files[0].path} is not what it was" in text) == (1, True)
    code, text = run(capsys, "verify", "case", "--json")
    assert json.loads(text)["problems"][0]["entry"] == "E1"
    assert run(capsys, "verify", "other", "--json")[0] == 2
