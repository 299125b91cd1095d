"""What a diagnosis makes of each suspect: confirmed by its findings, refuted by their absence, or not decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.investigate import SUSPECTS, weigh
from helpers.ledger import open_ledger
from helpers.paths import ROOT
from helpers.wiring.diagnosis import Diagnosis, Side, Slot
from helpers.wiring.findings import Finding, Undecided
from helpers.wiring.ranks import RankView

KNOWN = Side(boundary=2, score=0.99)
UNKNOWN = Side(boundary=None, score=0.5)
OPEN = {"fc-order": "inconclusive"}


def diagnosis(verdict: Any, *codes: str, served: Side = KNOWN, ranks: int = 1, undecided: str = "") -> Diagnosis:
    return Diagnosis(
        verdict=verdict,
        findings=[Finding(code=code, severity="error", slot=0, summary=f"{code} in slot 0") for code in codes],
        slots=[Slot(slot=0, trained=KNOWN, served=served)],
        aligned_tokens=640,
        captured_with={},
        fix=None,
        ranks=RankView(ranks=ranks, equal=True),
        undecided=[Undecided(code=undecided, why="no drafter was given")] if undecided else [],
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (diagnosis("mismatch", "slot-embedding", undecided="fc-order"), {"ids": "confirmed", **OPEN}),
        (diagnosis("mismatch", "slot-permuted", undecided="fc-order"), {"order": "confirmed", **OPEN}),
        (diagnosis("mismatch", "rank-partial-sum", ranks=2), {"a2a-gather": "confirmed"}),
        (diagnosis("match"), {}),
        (diagnosis("match", undecided="fc-order"), OPEN),
        (diagnosis("inconclusive", served=UNKNOWN), {s.key: "inconclusive" for s in SUSPECTS}),
    ],
)
def test_each_suspect_gets_its_verdict(
    found: Diagnosis, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    ledger = open_ledger("case")
    verdicts = weigh(ledger, found)
    assert {key: v.outcome for key, v in verdicts.items()} == {**{s.key: "refuted" for s in SUSPECTS}, **expected}
    before = len(ledger.entries)
    assert weigh(ledger, found) == verdicts
    assert len(ledger.entries) == before


def test_a_single_rank_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    one = weigh(open_ledger("one"), diagnosis("match"))["tp-shard"].reason
    two = weigh(open_ledger("two"), diagnosis("match", ranks=2))["tp-shard"].reason
    assert "this run has one rank" in one
    assert two.endswith("on 2 ranks")


def test_every_code_of_a_suspect_is_one_of_the_diagnosis() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "helpers" / "wiring").glob("*.py"))
    unknown = [code for s in SUSPECTS for code in s.codes if f'"{code}"' not in source]
    assert unknown == []
