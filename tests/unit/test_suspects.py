"""What a diagnosis makes of each suspect: confirmed by its findings, refuted by their absence, or not decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import streams

from helpers.investigate import SUSPECTS, weigh
from helpers.ledger import open_ledger
from helpers.paths import ROOT
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.diagnosis import Diagnosis, Side, Slot, diagnose
from helpers.wiring.findings import Finding, Undecided
from helpers.wiring.ranks import RankView

KNOWN = Side(boundary=2, score=0.99)
UNKNOWN = Side(boundary=None, score=0.5)
OPEN = {"fc-order": "inconclusive"}
ABOUT_SLOTS = {s.key: "inconclusive" for s in SUSPECTS if s.about == "slots"}


def diagnosis(
    verdict: Any, *codes: str, served: Side = KNOWN, trained: Side = KNOWN, same: bool = False, ranks: int = 1,
    undecided: str = "", severity: Any = "error",
) -> Diagnosis:  # fmt: skip
    compared = same or None not in (served.boundary, trained.boundary)
    return Diagnosis(
        verdict=verdict,
        findings=[Finding(code=code, severity=severity, slot=0, summary=f"{code} in slot 0") for code in codes],
        slots=[Slot(slot=0, trained=trained, served=served, compared=compared)],
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
        (diagnosis("inconclusive", served=UNKNOWN), ABOUT_SLOTS),
        (diagnosis("inconclusive", trained=UNKNOWN), ABOUT_SLOTS),
        (diagnosis("mismatch", "rows-missing", trained=UNKNOWN), ABOUT_SLOTS | {"form": "confirmed"}),
        (diagnosis("mismatch", "rank-partial-sum", served=UNKNOWN), ABOUT_SLOTS | {"a2a-gather": "confirmed"}),
        (diagnosis("match", served=UNKNOWN, trained=UNKNOWN, same=True), {}),
        (diagnosis("match", "rank-partial-sum", severity="warning", ranks=2), {"a2a-gather": "inconclusive"}),
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


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ((2, 5, 7), "what training had in slot 2 is not known"),
        ((2, 5, 9), "what slot 2 got is not known"),
        ((2,), "what training had in slot 2 is not known, and what slot 2 got is not known"),
    ],
)
def test_what_was_not_compared_refutes_nothing(
    kept: tuple[int, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slot 2 is fed boundary 7 and was trained on 9: with these boundaries alone one side is known, or none."""
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    texts = streams.texts()
    made = streams.served(texts, (2, 5, 7))
    made.ranks[0] = {
        name: x for name, x in made.ranks[0].items() if not name.startswith("boundary") or int(name[-3:]) in kept
    }
    found = diagnose(read_capture(made.write(tmp_path / "c")), read_dump(streams.write_dump(tmp_path / "d", texts)))
    assert (found.verdict, found.findings) == ("inconclusive", [])
    verdicts = weigh(open_ledger("case"), found)
    outcomes = {key: v.outcome for key, v in verdicts.items()}
    assert outcomes == {**ABOUT_SLOTS, "tp-shard": "refuted", "a2a-gather": "refuted"}
    assert said in verdicts["order"].reason


def test_where_nothing_was_aligned_the_ranks_were_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    nothing = diagnosis("mismatch", "tokens-differ", ranks=2).model_copy(update={"slots": []})
    verdicts = weigh(open_ledger("case"), nothing)
    assert {key: v.outcome for key, v in verdicts.items()} == {
        **ABOUT_SLOTS, "tp-shard": "refuted", "a2a-gather": "refuted",
    }  # fmt: skip
    assert verdicts["ids"].reason == "no slot was compared with what training captured"


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
