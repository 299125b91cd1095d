"""What a notebook's parameters become on a box that is not the lab."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT

NOTEBOOKS = {path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("[1-9]*.ipynb"))}
#: Not of a box: how much is asked, and where it is kept.
SIZES = {"BOX", "PROFILES", "INVESTIGATION", "TP", "SAMPLES", "REQUESTS", "MAX_NEW_TOKENS", "PAIRS", "TITLE"}


def code(path: Path) -> list[str]:
    return ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def parameters(number: str, box: str) -> dict[str, Any]:
    """The first code cell's values, with this box put in by hand."""
    found: dict[str, Any] = {}
    exec(code(NOTEBOOKS[number])[0].replace('BOX = "lab"', f"BOX = {box!r}"), found)
    return {name: value for name, value in found.items() if name.isupper()}


@pytest.mark.parametrize("number", [n for n, path in NOTEBOOKS.items() if "TP = " in code(path)[0]])
def test_the_profiles_own_tensor_parallel_size_is_kept(number: str) -> None:
    """A profile of tp = 8 was captured with 2; the lab's have 1, and two ranks are wanted to compare."""
    assert parameters(number, "mine")["TP"] is None
    assert parameters(number, "lab")["TP"] == 2
    assert not re.search(r"update=\{\"tp\": (?!TP or production\.tp\})", "\n".join(code(NOTEBOOKS[number])))


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_the_readme_lists_what_has_to_change(number: str) -> None:
    (row,) = re.findall(rf"^\| {number} \| (.*) \|$", (ROOT / "README.md").read_text(), re.M)
    assert set(parameters(number, "mine")) - SIZES <= set(re.findall(r"`([A-Z_]+)`", row))


@pytest.mark.parametrize("number", [n for n, path in NOTEBOOKS.items() if "PROMPTS" in code(path)[0]])
def test_prompts_are_held_against_the_model_before_the_ledger_has_a_line(number: str) -> None:
    """`counted_answers` and `captured` do it themselves; a load knows a server's address only."""
    text = "\n".join(code(NOTEBOOKS[number]))
    if "counted_answers(" not in text:
        assert text.index("check_prompts(box, ") < text.index("ledger.hypothesis(")


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_notebook_reads_configs_or_whole_dumps_by_itself(path: Path) -> None:
    """Kimi-K2.5 has its layers inside `text_config`; a training dump may be terabytes."""
    text = "\n".join(code(path))
    assert "config.json" not in text
    assert "enumerate(dump)" not in text
    assert "profile.python" not in text, "checkout_of asks it in the server's environment"
