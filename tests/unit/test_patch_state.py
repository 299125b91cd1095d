"""States of a patch from a file's text and the journal; and the case's own patch against its golden lines.

.venv/bin/python -m pytest tests/unit/test_patch_state.py
"""

from __future__ import annotations

import ast
import re
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.errors import UsageError
from helpers.source.patch_state import Patch, evaluate, load_patch, overall, sha256
from helpers.source.unified import place

OLD = b"".join(b"line %d\n" % number for number in range(1, 21))
NEW = OLD.replace(b"line 10\n", b"line 10\nadded\n")
TEXT = "--- a/f.py\n+++ b/f.py\n@@ -9,3 +9,4 @@\n line 9\n line 10\n+added\n line 11\n"
PATCH = Patch.of("made", TEXT).files[0]
JOURNAL = {"before": sha256(OLD), "after": sha256(NEW)}
ELSEWHERE = NEW.replace(b"line 1\n", b"line one\n")
MANGLED = NEW.replace(b"added\n", b"added too\n")


@pytest.mark.parametrize(
    ("text", "journal", "state"),
    [
        (OLD, None, "clean"),
        (NEW, None, "applied"),  # by another hand
        (OLD.replace(b"line 9\n", b"line nine\n"), None, "conflict"),
        (b"head\n" + OLD + OLD, None, "ambiguous"),
        (None, None, "conflict"),
        (NEW, JOURNAL, "applied"),
        (OLD, JOURNAL, "clean"),  # somebody put the old file back
        (ELSEWHERE, JOURNAL, "drifted"),
        (MANGLED, JOURNAL, "drifted"),
        (b"newer\n" + OLD, JOURNAL, "clean"),  # the engine was installed anew, in another build
    ],
)
def test_states(text: bytes | None, journal: dict[str, str] | None, state: str) -> None:
    found = evaluate(PATCH, text, journal)
    assert found.state == state
    assert bool(found.problem) == (state not in ("clean", "applied"))


def test_clean_and_applied_carry_the_other_form_and_both_hashes() -> None:
    clean, applied = evaluate(PATCH, OLD, None), evaluate(PATCH, NEW, None)
    assert (clean.result, applied.result) == (NEW, OLD)
    assert {(f.before, f.after) for f in (clean, applied)} == {(sha256(OLD), sha256(NEW))}


def test_drifted_can_be_taken_out_only_where_its_lines_are_untouched() -> None:
    assert evaluate(PATCH, ELSEWHERE, JOURNAL).result == OLD.replace(b"line 1\n", b"line one\n")
    assert evaluate(PATCH, MANGLED, JOURNAL).result is None


def test_what_fits_both_ways_is_ambiguous() -> None:
    """A line twice: the patch could add it once more, or take one of the two out."""
    patch = Patch.of("twice", "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,3 @@\n a\n+a\n b\n").files[0]
    assert evaluate(patch, b"a\na\nb\n", None).state == "ambiguous"


def test_several_files() -> None:
    assert overall(["clean", "clean"]) == "clean"
    assert overall(["clean", "applied"]) == "conflict"
    assert overall(["applied", "drifted", "applied"]) == "drifted"
    assert overall(["drifted", "conflict"]) == "conflict"


def test_an_unknown_patch_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="capture-embedding") as caught:
        load_patch("capture-embeding", "0.5.9")
    assert caught.value.code == "WB-PATCH-UNKNOWN"
    with pytest.raises(UsageError, match=r"sglang-0\.5\.9"):
        load_patch("capture-embedding", "0.4.0")
    with pytest.raises(UsageError, match=r"'\.\./x' cannot be read"):
        load_patch("../x", "0.5.9")


# The case's box ran the wheel's own file with a patch; what was seen there is the test of ours.
WHEEL = Path(str(metadata.distribution("sglang").locate_file("sglang/srt/models/deepseek_v2.py")))
GREP = re.compile(r"embed_tokens|VocabParallelEmbedding")


@pytest.fixture(scope="module")
def stock() -> bytes:
    return WHEEL.read_bytes()


@pytest.fixture(scope="module")
def patched(stock: bytes) -> str:
    patch = load_patch("capture-embedding", "0.5.9")
    placed = place(stock, patch.files[0])
    assert placed.text is not None
    return placed.text.decode()


def grep(text: str, pattern: re.Pattern[str]) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def test_the_wheel_is_the_one_that_the_facts_were_read_in(stock: bytes) -> None:
    assert grep(stock.decode(), GREP)[:7] == [120, 2531, 2537, 2591, 2628, 2641, 2676]
    assert len(stock.splitlines()) == 2986


def test_golden_grep_lines(patched: str) -> None:
    found = grep(patched, GREP)
    assert found[:10] == [120, 2531, 2537, 2591, 2628, 2642, 2677, 2821, 2903, 2950]
    # The record ends there; what follows in the wheel is the body of set_embed_and_head.
    assert found[10:] == [2953, 2955]


def test_golden_sed_lines(patched: str) -> None:
    lines = patched.splitlines()
    shown = [line.strip() for line in lines[2629:2640]]
    assert shown[:3] == [")", "self.layers_to_capture = []", "self.capture_embedding_for_eagle3 = False"]
    assert shown[3].startswith("if get_moe_a2a_backend().is_deepep() or ")
    assert shown[3].endswith(".is_mooncake():")
    assert shown[4:8] == ["self.enable_a2a_moe = True", "else:", "self.enable_a2a_moe = False", ""]
    assert shown[8].startswith("# llama_4_scaling")
    assert shown[9].startswith("self.llama_4_scaling_config = ")
    assert grep(patched, re.compile(r"self\.enable_a2a_moe")) == [2634, 2636, 2727]


@pytest.mark.parametrize(
    ("ids", "flag", "layers"),
    [
        ([-1, 2, 30], True, [3, 31]),
        ([-1, 1, 4], True, [2, 5]),
        ([2, 30, 58], False, [3, 31, 59]),
        (None, False, [2, 30, 58]),
    ],
)
def test_the_patched_setter(patched: str, ids: list[int] | None, flag: bool, layers: list[int]) -> None:
    """The setter's own code, run on a stand-in for the model that has only what it touches."""
    assert _set(patched, ids) == (flag, layers)


@pytest.mark.parametrize(("ids", "first_rank"), [([-1, 2], False), ([-2, 2], True)])
def test_the_patched_setter_refuses_what_it_cannot_tap(patched: str, ids: list[int], first_rank: bool) -> None:
    with pytest.raises(ValueError, match=r"layer id -1|no layer has the id -2"):
        _set(patched, ids, first_rank=first_rank)


def _set(source: str, ids: list[int] | None, *, first_rank: bool = True) -> tuple[bool, list[int]]:
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == "set_eagle3_layers_to_capture"
    ]
    names: dict[str, object] = {}
    code = "from typing import List, Optional\n" + ast.unparse(found[0])
    exec(compile(code, "setter", "exec"), names)
    model = SimpleNamespace()
    group = SimpleNamespace(is_last_rank=True, is_first_rank=first_rank)
    self = SimpleNamespace(model=model, config=SimpleNamespace(num_hidden_layers=61), pp_group=group)
    setter: Any = names["set_eagle3_layers_to_capture"]
    setter(self, ids)
    return model.capture_embedding_for_eagle3, model.layers_to_capture
