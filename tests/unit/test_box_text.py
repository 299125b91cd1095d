"""The box's pure parts: quoting, masking, lines, the marker, records."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.box.lines import LineSplitter
from helpers.box.masking import mask
from helpers.box.meter import human
from helpers.box.quoting import Raw, exports, join, octal, quote
from helpers.box.result import CommandResult
from helpers.box.wrap import Marker
from helpers.errors import UsageError

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(TEXT)
def test_a_quoted_word_reads_back(word: str) -> None:
    assert shlex.split(quote(word)) == [word]


def test_the_program_is_no_keyword_alias_or_assignment() -> None:
    assert join(["if", "x"]) == "'if' x"
    assert join(["A=b"]) == "'A=b'"
    assert join(["echo", "=ls", "~", "a b", Raw("| wc")]) == "'echo' '=ls' '~' 'a b' | wc"


@pytest.mark.parametrize("name", ["1A", "A-B", "", "A=B", "A;rm"])
def test_names_of_variables_are_checked(name: str) -> None:
    with pytest.raises(UsageError, match="WB-RUN-ARGUMENT"):
        exports({name: "x"})


def test_exports_are_one_line_whatever_the_values_hold() -> None:
    line = exports({"A": "a'b", "B": "two\nlines"})
    assert "\n" not in line
    assert octal("two\nlines") in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HF_TOKEN=hf_abcdefgh python3 x.py", "HF_TOKEN=*** python3 x.py"),
        ("curl -H 'Authorization: Bearer abc.def' host", "curl -H 'Authorization: Bearer ***' host"),
        ("--api-key s3cret --port 8", "--api-key *** --port 8"),
        ("'--api-key' 's3cret word' x", "'--api-key' *** x"),
        ('{"password": "p w", "user": "me"}', '{"password": *** "user": "me"}'),
        ("git clone https://me:pw123@host/x", "git clone https://me:***@host/x"),
        ("export WANDB_API_KEY=0123; run", "export WANDB_API_KEY=***; run"),
        ("--passphrase=abc", "--passphrase=***"),
        ("use sk-abcdefghijkl now", "use *** now"),
        ("AWS_SECRET_ACCESS_KEY='a b' x", "AWS_SECRET_ACCESS_KEY=*** x"),
    ],
)
def test_secrets_are_masked(text: str, expected: str) -> None:
    assert mask(text).replace("***,", "***") == expected


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m sglang.launch_server --max-total-tokens 8192 --num-draft-tokens 4",
        "cat tokenizer.json tokens/part-1",
        "--tokenizer-path /m/target --skip-tokenizer-init",
        "ls ~/.ssh/authorized_keys",
        "https://host:30000/health",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_a_record_is_json_without_secrets_and_without_output() -> None:
    result = CommandResult(
        ("curl", "--token", "abc", "-H", "Authorization: Bearer xyz", "\udcff"),
        "'curl' --token abc -H 'Authorization: Bearer xyz' '\udcff'",
        0, "secret output", "", 0.12345, 13, 0, "lab", "2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    text = json.dumps(result.record())
    assert not any(word in text for word in ("abc", "xyz", "secret output"))
    assert json.loads(text)["argv"][2] == "***"
    assert json.loads(text)["seconds"] == 0.123


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_lines_are_the_same_however_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    splitter, lines, at = LineSplitter(), [], 0
    for cut in [*cuts, len(data)]:
        lines += splitter.feed(data[at : at + cut])
        at += cut
    lines += splitter.feed(b"", final=True)
    text = data.decode("utf-8", "surrogateescape")
    assert lines == (text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n"))


def test_a_line_without_an_end_comes_in_pieces() -> None:
    splitter = LineSplitter(longest=10)
    lines = [line for _ in range(5) for line in splitter.feed(b"x" * 7)]
    assert lines == ["x" * 10] * 3
    assert list(splitter.feed(b"", final=True)) == ["x" * 5]


@given(st.integers(1, 200), st.binary(max_size=100))
def test_the_marker_is_found_however_it_is_cut(step: int, noise: bytes) -> None:
    stream = noise + b"\x01wb 0123abcd 4711 4711\n" + b"own \x01wb 0123abcd 1 1\n output"
    marker, out = Marker("0123abcd"), b""
    for at in range(0, len(stream), step):
        out += marker.feed(stream[at : at + step])
    assert out == b"own \x01wb 0123abcd 1 1\n output"
    assert (marker.pid, marker.group, marker.noise) == (4711, 4711, noise)


def test_a_group_that_the_command_does_not_lead_is_never_ours() -> None:
    marker = Marker("00")
    marker.feed(b"\x01wb 00 4711 1\n")
    assert (marker.pid, marker.group) == (4711, None)


def test_bytes_for_people() -> None:
    assert [human(n) for n in (0, 1023, 1 << 20, 3 << 29, 5 << 40)] == [
        "0 B", "1023 B", "1.0 MiB", "1.5 GiB", "5.0 TiB",
    ]  # fmt: skip
