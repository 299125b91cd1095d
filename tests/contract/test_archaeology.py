"""Source read over both SSH servers: matches, ranges, definitions; hostile names, binary files, missing ones.

.venv/bin/python -m pytest tests/contract/test_archaeology.py
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from helpers import source
from helpers.box import Box
from helpers.errors import RemoteFailed, UsageError
from helpers.source import Checkout

WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
FILE = "sglang/srt/models/deepseek_v2.py"
GOLDEN = [120, 2531, 2537, 2591, 2628, 2641, 2676]
HOSTILE = [
    "-n",
    "--help",
    "a b",
    "it's",
    'say "so"',
    "$(touch pwned)",
    "new\nline",
    "*",
    "\\n",
    "ü",
    "\udcff\udcfe",
    ";x",
]


@pytest.fixture
def checkout(there: Path) -> Checkout:
    """A checkout on the box: the wheel's package as far as these tests read it."""
    root = there / "python"
    for name in ("sglang/__init__.py", "sglang/_version.py", FILE, "sglang/srt/models/kimi_k25.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WHEEL / name, root / name)
    return Checkout(str(root / "sglang"), "0.5.9", sys.executable, sys.version.split()[0])


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """What a folder holds and when it was last changed."""
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in folder.rglob("*")}


def test_golden_lines_by_basic_extended_and_fixed_patterns(box: Box, checkout: Checkout) -> None:
    basic = source.grep(box, r"embed_tokens\|VocabParallelEmbedding", FILE, checkout=checkout)
    assert basic.numbers[:7] == GOLDEN
    assert basic.sha256 == hashlib.sha256((WHEEL / FILE).read_bytes()).hexdigest()
    extended = source.grep(box, "embed_tokens|VocabParallelEmbedding", FILE, syntax="extended", checkout=checkout)
    lines = source.grep(box, "embed_tokens\nVocabParallelEmbedding", FILE, syntax="fixed", checkout=checkout)
    assert basic.numbers == extended.numbers == lines.numbers
    assert source.grep(box, "embed_tokens|VocabParallelEmbedding", FILE, checkout=checkout).lines == ()
    assert source.grep(box, "EMBED_TOKENS", FILE, ignore_case=True, checkout=checkout).numbers
    # A path from SGLang's repository, and an absolute one, name the same file.
    for name in (f"python/{FILE}", f"{checkout.root}/{FILE}"):
        assert source.grep(box, r"embed_tokens\|VocabParallelEmbedding", name, checkout=checkout).numbers[:7] == GOLDEN


def test_a_range_with_its_permalink(box: Box, checkout: Checkout) -> None:
    shown = source.show(box, FILE, "2630:2632", checkout=checkout)
    assert shown.numbers == [2630, 2631, 2632]
    assert shown.total == 2986
    assert shown.lines[1].text == "        self.layers_to_capture = []"
    assert shown.permalink.startswith(f"sglang==0.5.9/{FILE}@sha256:4071b9a6")
    assert shown.permalink.endswith("#L2630-L2632")
    page = shown._repr_html_()
    assert "layers_to_capture" in page
    assert "<span style=" in page
    assert ">2631</td>" in page
    assert shown.permalink in page
    assert "2631          self.layers_to_capture = []" in repr(shown)
    record = shown.record()
    assert record["lines"][0] == {"file": FILE, "line": 2630, "text": shown.lines[0].text}
    assert record["command"] == f"workbook show {box.name} {FILE} 2630:2632"
    assert source.show(box, FILE, "2985:9999", checkout=checkout).numbers == [2985, 2986]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_names(box: Box, checkout: Checkout, there: Path, name: str) -> None:
    (there / "python" / name).write_bytes(b"one\n-two 'x' \"y\" $(z)\n")
    before = state(there)
    found = source.grep(box, "-two 'x' \"y\" $(z)", name, syntax="fixed", checkout=checkout)
    assert [line.record()["text"] for line in found] == ["-two 'x' \"y\" $(z)"]
    assert source.show(box, name, "1", checkout=checkout).text == "one"
    with pytest.raises(RemoteFailed) as caught:
        source.show(box, name + "-not", "1", checkout=checkout)
    assert caught.value.code == "WB-FILE-MISSING"
    assert state(there) == before


@pytest.mark.parametrize("pattern", ["-e", "--version", "a\\|b", "", "'", '"; rm -rf x', "new\nline", "[[:space:]]"])
def test_hostile_patterns_are_patterns(box: Box, checkout: Checkout, there: Path, pattern: str) -> None:
    text = "-e\n--version\na\n'\n\"; rm -rf x\nline\nplain\n"
    (there / "python" / "f").write_text(text)
    own = subprocess.run(["grep", "-n", "-e", pattern, "f"], cwd=there / "python", capture_output=True, text=True)
    numbers = [int(line.split(":")[0]) for line in own.stdout.splitlines()]
    assert source.grep(box, pattern, "f", checkout=checkout).numbers == numbers


@pytest.mark.parametrize(("pattern", "syntax"), [("\\(", "basic"), ("(", "extended"), ("a\0b", "fixed")])
def test_a_pattern_that_is_none(box: Box, checkout: Checkout, pattern: str, syntax: source.archaeology.Syntax) -> None:
    with pytest.raises(UsageError) as caught:
        source.grep(box, pattern, FILE, syntax=syntax, checkout=checkout)
    assert caught.value.code == "WB-GREP-PATTERN"


def test_binary_files_are_text_and_long_lines_are_cut_only_where_shown(
    box: Box, checkout: Checkout, there: Path
) -> None:
    (there / "python" / "b.bin").write_bytes(b"\0\1head\nneedle \xff\0tail\r\n" + b"needle" + b"x" * 5000)
    found = source.grep(box, "needle", "b.bin", checkout=checkout)
    assert found.numbers == [2, 3]
    assert found.lines[0].text.encode("utf-8", "surrogateescape") == b"needle \xff\0tail\r"
    assert len(found.lines[1].record()["text"]) == 5006
    assert max(map(len, str(found).splitlines())) < 300
    assert "characters more" in str(found)
    assert not set(map(chr, range(32))) - {"\n"} & set(str(found))
    assert source.show(box, "b.bin", "1:3", checkout=checkout).lines[0].text == "\0\1head"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no/such.py", "WB-FILE-MISSING"),
        ("sglang", "WB-FILE-MISSING"),
        ("/dev/zero", "WB-FILE-MISSING"),
        ("", "WB-FILE-MISSING"),
        ("pipe", "WB-FILE-MISSING"),
        ("nul\0byte", "WB-FILE-READ"),
        ("x" * 300, "WB-FILE-READ"),
    ],
)
def test_what_is_no_file_is_one_clear_error(box: Box, checkout: Checkout, there: Path, name: str, code: str) -> None:
    os.mkfifo(there / "python" / "pipe")
    for ask in (
        lambda: source.grep(box, "x", name, checkout=checkout),
        lambda: source.show(box, name, "1", checkout=checkout),
    ):
        with pytest.raises(RemoteFailed) as caught:
            ask()
        assert caught.value.code == code
        assert caught.value.next


def test_a_name_without_its_folder_is_told_where_it_lies(box: Box, checkout: Checkout) -> None:
    with pytest.raises(RemoteFailed, match=r"did you mean sglang/srt/models/deepseek_v2\.py"):
        source.grep(box, "x", "deepseek_v2.py", checkout=checkout)


@pytest.mark.parametrize("lines", ["", "0:3", "5:2", "a:b", "1:2:3", "-1:4", "2987:", "9" * 41, "٣:٤"])
def test_ranges_that_are_none(box: Box, checkout: Checkout, lines: str) -> None:
    with pytest.raises(UsageError) as caught:
        source.show(box, FILE, lines, checkout=checkout)
    assert caught.value.code == "WB-SHOW-RANGE"


def test_where_a_name_is_defined(box: Box, checkout: Checkout, there: Path) -> None:
    (there / "python/sglang/broken.py").write_text("def set_eagle3_layers_to_capture(:\n")
    found = source.where_is(box, "set_eagle3_layers_to_capture", checkout=checkout)
    assert [(s.file, s.line, s.qualname) for s in found.sites] == [
        (FILE, 2963, "DeepseekV2ForCausalLM.set_eagle3_layers_to_capture")
    ]
    assert found.unread == ("sglang/broken.py",)
    page = found._repr_html_()
    assert ">2963</td>" in page
    assert "<span style=" in page
    assert f"sglang==0.5.9/{FILE}@sha256:4071b9a6" in page
    assert "not read: sglang/broken.py" in page
    attribute = source.where_is(box, "DeepseekV2Model.enable_a2a_moe", checkout=checkout)
    assert [(s.kind, s.line) for s in attribute.sites] == [("attribute", 2633), ("attribute", 2635)]
    assert source.where_is(box, "nowhere_at_all", checkout=checkout).sites == ()
    assert "defined in none of" in source.where_is(box, "nowhere_at_all", checkout=checkout)._repr_html_()
    with pytest.raises(UsageError) as caught:
        source.where_is(box, "rm -rf", checkout=checkout)
    assert caught.value.code == "WB-SOURCE-NAME"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of wheels that holds the installed engine's own file under the wheel's name: no network is needed."""
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/sglang-0.5.9-py3-none-any.whl", "w") as wheel:
        wheel.write(WHEEL / FILE, FILE)
    monkeypatch.setenv("WORKBOOK_CACHE", str(tmp_path))


@pytest.mark.usefixtures("cache")
def test_local_edits_show_against_the_released_file(box: Box, checkout: Checkout, there: Path) -> None:
    assert source.diff(box, FILE, checkout=checkout).same
    file = there / "python" / FILE
    file.write_text(file.read_text().replace("self.layers_to_capture = []", "self.layers_to_capture = [1]"))
    found = source.diff(box, FILE, "0.5.9", checkout=checkout)
    assert (found.same, found.added, found.removed) == (False, 1, 1)
    assert "+        self.layers_to_capture = [1]" in found.lines
    assert "[1]</span>" in found._repr_html_()
    assert f"{found.box_sha256[:16]} on the box" in repr(found)
    assert found.record()["wheel_sha256"].startswith("4071b9a6")
    for name in ("sglang/srt/models/kimi_k25.py", f"{checkout.root}/{FILE}"):
        with pytest.raises(UsageError) as caught:
            source.diff(box, name, checkout=checkout)
        assert caught.value.code == "WB-SOURCE-NOT-RELEASED"
