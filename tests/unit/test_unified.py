"""The patch engine: exact context, one place only, both ways, byte for byte.

.venv/bin/python -m pytest tests/unit/test_unified.py
"""

from __future__ import annotations

import difflib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.errors import UsageError
from helpers.source.unified import FilePatch, parse_patch, place

BASE = b"".join(b"line %d\n" % number for number in range(1, 41))


def patch_between(old: bytes, new: bytes, *, context: int = 3) -> FilePatch:
    lines = [text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (old, new)]
    diff = []
    for line in difflib.unified_diff(*lines, "a/f.py", "b/f.py", n=context):
        diff.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return parse_patch("".join(diff), name="made")[0]


def test_goes_to_its_stated_line_and_back() -> None:
    new = BASE.replace(b"line 20\n", b"line 20\nadded\n").replace(b"line 35\n", b"")
    patch = patch_between(BASE, new)
    placed = place(BASE, patch)
    assert (placed.outcome, placed.text, placed.lines) == ("fits", new, (18, 32))
    assert place(new, patch.reversed()).text == BASE


def test_goes_to_the_only_other_place() -> None:
    patch = patch_between(BASE, BASE.replace(b"line 20\n", b"line 20\nadded\n"))
    moved = b"one\ntwo\nthree\n" + BASE
    placed = place(moved, patch)
    assert placed.lines == (21,)
    assert placed.text == moved.replace(b"line 20\n", b"line 20\nadded\n")


def test_a_second_hunk_is_looked_for_where_the_first_was_shifted_to() -> None:
    twice = b"".join(b"same\nsame\nsame\nx%d\nsame\nsame\nsame\n" % (number % 2) for number in range(4))
    old = b"head\nhead 2\nhead 3\n" + twice
    at = old.index(b"x0", old.index(b"x0") + 2)
    new = b"head\nHEAD\nhead 3\n" + old[17:at] + b"y" + old[at + 1 :]
    patch = patch_between(old, new)
    moved = b"new\n" + old
    assert len(patch.hunks) == 2
    assert place(moved, patch).text == b"new\n" + new


def test_two_candidates_are_ambiguous_and_named() -> None:
    block = b"a\nb\nc\nX\nd\ne\nf\n"
    patch = patch_between(block, block.replace(b"X", b"Y"))
    placed = place(b"head\n" + block + b"mid\n" + block, patch)
    assert (placed.outcome, placed.candidates, placed.text) == ("ambiguous", (2, 10), None)
    assert place(block + b"mid\n" + block, patch).lines == (1,)  # its own line settles it


def test_no_candidate_is_a_conflict_that_keeps_the_hunk() -> None:
    patch = patch_between(BASE, BASE.replace(b"line 20\n", b"line 20\nadded\n"))
    placed = place(BASE.replace(b"line 19\n", b"line nineteen\n"), patch)
    assert placed.outcome == "conflict"
    assert placed.hunk is not None
    assert "+added" in placed.hunk.shown
    assert placed.hunk.header == "@@ -18,6 +18,7 @@"


@pytest.mark.parametrize(
    "strange", [b"tab\there \n", b"cr\r\n", b"a lone \r inside\n", "\u00e4\u2028\u0085\n".encode(), b"\xff\xfe\n"]
)
def test_bytes_that_are_no_plain_text_stay_as_they_are(strange: bytes) -> None:
    old = b"one\ntwo\n" + strange + b"three\n"
    new = old.replace(b"two\n", b"two\nmore\n")
    text = "--- a/f.py\n+++ b/f.py\n@@ -1,4 +1,5 @@\n one\n two\n+more\n " + strange.decode("utf-8", "surrogateescape")
    patch = parse_patch(text + " three\n", name="made")[0]
    assert place(old, patch).text == new
    assert place(new, patch.reversed()).text == old


def test_a_missing_last_newline_is_part_of_the_text() -> None:
    old, new = b"a\nb\nc", b"a\nb\nC\n"
    patch = patch_between(old, new)
    assert place(old, patch).text == new
    assert place(new, patch.reversed()).text == old
    assert place(old + b"\n", patch).outcome == "conflict"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not a diff at all\n", "holds no file"),
        ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n", "added"),
        ("--- a/f.py\n+++ b/f.py\n@@ -3,0 +4 @@\n+x\n", "no line of context"),
        ("--- a/f.py\n+++ b/f.py\n@@ -1,3 +1,3 @@\n a\n", "cannot be read"),
    ],
)
def test_what_is_no_plain_change_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_patch(text, name="bad")
    assert caught.value.code == "WB-PATCH-UNREADABLE"


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), context=st.integers(1, 4), above=st.integers(0, 3))
def test_any_edit_goes_in_and_comes_out_byte_for_byte(seed: int, context: int, above: int) -> None:
    """Lines repeat a lot here, so some places are ambiguous: then nothing may be done at all."""
    dice = random.Random(seed)
    old = [b"%d\n" % dice.randrange(6) for _ in range(dice.randrange(3, 40))]
    new = list(old)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(new))
        new[at : at + dice.randrange(2)] = [b"new %d\n" % dice.randrange(3)] * dice.randrange(3)
    if old == new or not new:
        return
    try:
        patch = patch_between(b"".join(old), b"".join(new), context=context)
    except UsageError:
        return
    assert place(b"".join(old), patch).text == b"".join(new)
    assert place(b"".join(new), patch.reversed()).text == b"".join(old)
    moved = b"".join([b"above\n"] * above + old)
    placed = place(moved, patch)
    if placed.outcome == "fits" and placed.text is not None:
        back = place(placed.text, patch.reversed())
        assert back.outcome != "conflict"
