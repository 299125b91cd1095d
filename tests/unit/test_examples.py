"""The examples in docstrings do what they say; those that need a box say +SKIP.

.venv/bin/python -m pytest tests/unit/test_examples.py"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from helpers.paths import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("helpers", "remote")
    for path in (ROOT / folder).rglob("*.py")
    if path.read_text().count(">>> ") > path.read_text().count("doctest: +SKIP")
)


@pytest.mark.parametrize("name", MODULES)
def test_what_an_example_shows_is_what_it_gives(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0
