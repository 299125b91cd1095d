"""Endpoints read from recorded answers of ``ssh -G``: tests/cases/ssh_config/<case>.json.

A new case needs no code: ``{"source": which ssh said it, "config": the lines that it was asked about, "host", "output":
its lines (those that matter), "environment", "expected": the endpoint without its defaults}``. The home is /home/me,
and no file is there; ``known_hosts`` may be left out of what is expected.

.venv/bin/python -m pytest tests/cases/test_ssh_config.py
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from helpers.box.sshasked import read
from helpers.box.targets import Target, endpoint

CASES = sorted((Path(__file__).parent / "ssh_config").glob("*.json"))
HOME = Path("/home/me")
KEYS = {"source", "config", "host", "output", "environment", "expected"}


def plain(value: object) -> object:
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text())
    assert set(case) <= KEYS
    host, environment = case["host"], case.get("environment", {})
    tokens = {"d": str(HOME), "i": "1000", "l": "laptop.example.org", "n": host, "u": "me"}
    options = read("\n".join(case["output"]), tokens=tokens, environment=environment)
    target = asdict(endpoint(host, host, options, home=HOME, environment=environment))
    usual = asdict(Target(name=host, host=host))
    found = {key: plain(value) for key, value in target.items() if value != usual[key]}
    expected = {"host": host, **case["expected"]}
    if "known_hosts" not in expected:
        found.pop("known_hosts")
    assert {"host": target["host"], **found} == expected


def test_there_are_cases() -> None:
    assert len(CASES) > 10
