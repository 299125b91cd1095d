"""Each fact's parser against recorded answers: tests/cases/<fact>/<case>.json. A new case needs no code.

A case holds its source, the command, the answer as lines, and either what comes out (expected) or the error. Answers
that are marked as composed follow the command's documented format; what a link stands for is in `source`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.box.facts.gathering import FACTS
from helpers.errors import RemoteFailed

HERE = Path(__file__).parent
CASES = sorted(path for name in FACTS for path in (HERE / name).glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_case(path: Path) -> None:
    case = json.loads(path.read_text())
    assert case["source"]
    fact = FACTS[path.parent.name]
    text = "\n".join(case["output"])
    if "error" in case:
        with pytest.raises(RemoteFailed) as caught:
            fact.parse(text)
        assert {"code": caught.value.code, "message": caught.value.message} == case["error"]
        assert caught.value.expected
    else:
        assert json.loads(fact.parse(text).model_dump_json()) == case["expected"]


def test_every_fact_has_good_and_broken_cases() -> None:
    for name in FACTS:
        cases = [json.loads(path.read_text()) for path in (HERE / name).glob("*.json")]
        assert any("expected" in case for case in cases), name
        assert any("error" in case for case in cases), name
        assert any("recorded" in case["source"] for case in cases), f"{name}: nothing recorded"


@pytest.mark.parametrize("name", FACTS)
def test_a_broken_off_answer_is_an_error_or_less_never_a_crash(name: str) -> None:
    for path in (HERE / name).glob("*.json"):
        text = "\n".join(json.loads(path.read_text())["output"])
        for end in range(0, len(text), max(1, len(text) // 40)):
            try:
                FACTS[name].parse(text[:end])
            except RemoteFailed as error:
                assert error.code == "WB-FACT-UNREADABLE"  # noqa: PT017 - either outcome is right
