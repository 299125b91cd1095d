"""Acceptance read from what servers left behind: tests/cases/counters/<source>/<case>.json.

A new case needs no code: ``{"source": where it comes from, "input": [lines]}``, ``"arguments"`` of the reader, and
either ``"expected"`` (figures, as many as the case is about; ``parts`` likewise), ``"definition"`` and ``"warnings"``
(texts that stand in them), or ``"error"`` (code, what its message says, the identity that it names). A lone surrogate
in a line, such as ``\\udcff``, is that byte.

.venv/bin/python -m pytest tests/cases/test_counters.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.acceptance.sources import Counters, read_blocks
from helpers.errors import WorkbookError, WrongResult
from helpers.paths import DOCS

FOLDER = Path(__file__).parent / "counters"
CASES = sorted(FOLDER.glob("*/*.json"))
KEYS = {"source", "input", "arguments", "expected", "definition", "warnings", "error"}
SOURCES = {"log", "vllm-log", "metrics", "server-info", "responses"}


def content(case: dict[str, Any]) -> bytes:
    return "\n".join(case["input"]).encode("utf-8", "surrogateescape")


def read(case: dict[str, Any], block: int = 1 << 20) -> Counters:
    raw = content(case)
    blocks = [raw[start : start + block] for start in range(0, len(raw), block)]
    return read_blocks(blocks, "the case", **case.get("arguments", {}))


def agrees(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            agrees(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert found is not None, where
        assert len(found) == len(expected), where
        for number, value in enumerate(expected):
            agrees(found[number], value, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-9), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_source(path: Path) -> None:
    case = json.loads(path.read_text())
    assert set(case) <= KEYS
    assert ("expected" in case) != ("error" in case)
    if "expected" in case:
        found = read(case)
        agrees(found.model_dump(mode="json"), case["expected"], path.stem)
        for text in case.get("definition", ()):
            assert text in found.definition
        for text in case.get("warnings", ()):
            assert any(text in warning for warning in found.warnings), found.warnings
        assert str(found)
        assert read(case, block=7) == found  # however the bytes come
        return
    with pytest.raises(WorkbookError) as caught:
        read(case)
    error, wanted = caught.value, case["error"]
    assert error.code == wanted["code"]
    for text in wanted["says"]:
        assert text in error.message
    assert wanted["identity"] in error.expected
    assert error.next
    assert (DOCS / "errors" / f"{error.code}.md").is_file()
    if error.code == "WB-COUNTERS-CONTRADICT":
        assert isinstance(error, WrongResult)
        assert error.exit_code == 1
        assert error.expected.startswith("identity: ")


def test_every_source_has_good_and_bad_cases() -> None:
    assert {path.parent.name for path in CASES} == SOURCES
    for source in SOURCES:
        kinds = {"error" in json.loads(path.read_text()) for path in FOLDER.glob(f"{source}/*")}
        assert kinds == {True, False}, source


def test_a_case_says_where_it_is_from_and_names_nobody() -> None:
    for path in CASES:
        text = path.read_text()
        assert re.match(r"https://|lab, |the lab's|composed", json.loads(text)["source"]), path
        assert not re.search(r"/(?:root|work|tmp)/|/home/(?!me\b)", text), path


def test_cut_anywhere_a_source_gives_figures_or_a_coded_error(subtests: pytest.Subtests) -> None:
    """As a program that is ended halfway leaves it: never a crash, never figures out of their bounds."""
    for path in CASES:
        case = json.loads(path.read_text())
        whole = content(case)
        with subtests.test(path=path.name):
            for end in range(0, len(whole), max(1, len(whole) // 30)):
                length, rate, code = None, None, "WB-COUNTERS-"
                try:
                    found = read_blocks([whole[:end]], "the case", **case.get("arguments", {}))
                    length, rate = found.accept_length, found.accept_rate
                except WorkbookError as error:
                    code = error.code
                assert code.startswith("WB-COUNTERS-")
                assert length is None or length >= 1
                assert rate is None or 0 <= rate <= 1
