"""Facts read from recorded outputs: tests/cases/facts/<fact>/<case>.json.

A new case needs no code: ``{"source": where the lines come from, "output": [stdout's lines], "exit_status", ...}`` and
either ``"expected"``, the whole fact without its defaults, or ``"error"``: its code, the number of the line that it
names, and what its lines show. Also: ``errors`` (stderr), ``argv``, ``timed_out``, ``seconds``, ``arguments`` (of the
parser).

.venv/bin/python -m pytest tests/cases/test_facts.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.box.facts import cpu, disk, gpu_processes, gpus, memory, mig, python, servers, sockets
from helpers.box.facts.answer import Answer, Fact
from helpers.errors import RemoteFailed
from helpers.paths import DOCS
from helpers.source import served

FOLDER = Path(__file__).parent / "facts"
CASES = sorted(FOLDER.glob("*/*.json"))
PARSERS: dict[str, Callable[..., Fact]] = {
    "cpu": cpu.parse,
    "disk": disk.parse,
    "engine": served.parse,
    "gpu_processes": gpu_processes.parse,
    "gpus": gpus.parse,
    "memory": memory.parse,
    "mig": mig.parse,
    "python": python.parse,
    "servers": servers.parse,
    "sockets": sockets.parse,
}
COMMANDS = {
    "cpu": cpu.QUESTION.commands[0],
    "disk": disk.question([]).commands[0],
    "engine": ("python3", "-c", "\n..."),
    "gpu_processes": gpu_processes.QUESTION.commands[0],
    "gpus": gpus.QUESTION.commands[0],
    "memory": memory.QUESTION.commands[0],
    "mig": mig.QUESTION.commands[0],
    "python": ("python3", "-c", "\n..."),
    "servers": ("python3", "-c", "\n..."),
    "sockets": sockets.QUESTION.commands[0],
}
KEYS = {"source", "argv", "output", "errors", "exit_status", "seconds", "timed_out", "arguments", "expected", "error"}


def answer_of(fact: str, case: dict[str, Any]) -> Answer:
    return Answer(
        argv=tuple(case.get("argv", COMMANDS[fact])),
        lines=tuple(case["output"]),
        errors=tuple(case.get("errors", ())),
        exit_status=case["exit_status"],
        seconds=case.get("seconds", 0.0),
        timed_out=case.get("timed_out", False),
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_output(path: Path) -> None:
    case = json.loads(path.read_text())
    fact = path.parent.name
    assert set(case) <= KEYS
    assert ("expected" in case) != ("error" in case)
    answer = answer_of(fact, case)
    arguments = case.get("arguments", {})
    if "expected" in case:
        found = PARSERS[fact](answer, **arguments)
        assert found.model_dump(mode="json", exclude_defaults=True) == case["expected"]
        return
    with pytest.raises(RemoteFailed) as caught:
        PARSERS[fact](answer, **arguments)
    error, wanted = caught.value, case["error"]
    assert error.code == wanted["code"]
    assert error.message.startswith(f"{fact}: ")
    assert error.expected
    assert error.next
    assert (DOCS / "errors" / f"{error.code}.md").is_file()
    if "line" in wanted:
        named = re.search(r"line (\d+)", error.message)
        assert named is not None
        assert int(named[1]) == wanted["line"]
        if wanted["line"] <= len(case["output"]):
            assert case["output"][wanted["line"] - 1][:40] in error.message.replace("\\\\", "\\")
        else:
            assert "the output ends" in error.message
    for text in wanted.get("shows", ()):
        assert any(text in line for line in (*error.lines, error.message))


def test_every_fact_has_its_cases() -> None:
    assert {path.parent.name for path in CASES} == set(PARSERS)
    for fact in PARSERS:
        kinds = {
            "expected" if "expected" in json.loads(path.read_text()) else "error" for path in FOLDER.glob(f"{fact}/*")
        }
        assert kinds == {"expected", "error"}, f"{fact}: good and broken output"


def test_a_case_says_where_it_is_from_and_names_nobody() -> None:
    for path in CASES:
        text = path.read_text()
        case = json.loads(text)
        assert re.match(r"https://|this machine|composed", case["source"]), path
        uuids = set(re.findall(r"(?:GPU|MIG)-([0-9a-f]{8}-[0-9a-f-]{27})", text))
        assert all(re.fullmatch(r"[0-9a-f]{8}-0000-0000-0000-0{12}", uuid) for uuid in uuids), path
        assert not re.search(r"/(?:root|work)/|/home/(?!me\b|ann\b|bob\b|models\b)", text), path


def test_cut_anywhere_an_output_gives_a_fact_or_a_coded_error(subtests: pytest.Subtests) -> None:
    """As a program that is ended halfway leaves it: never a crash, and never an error without a code and a line."""
    for path in CASES:
        case = json.loads(path.read_text())
        fact, whole = path.parent.name, "\n".join(case["output"])
        with subtests.test(path=path.name):
            for end in range(0, len(whole), max(1, len(whole) // 40)):
                cut = {**case, "output": whole[:end].split("\n") if end else []}
                code = "WB-FACT-"
                try:
                    PARSERS[fact](answer_of(fact, cut), **case.get("arguments", {}))
                except RemoteFailed as error:
                    code = error.code
                assert code.startswith("WB-FACT-")
