"""What a load reads in an answer's stream, by recorded ones: tests/cases/stream/<case>.json.

A new case needs no code: ``{"says", "source", "endpoint", "lines": [[seconds, line]], "expect"}``; ``expect`` holds
attributes of the stream at its end, or ``refused``, a part of the words that it is refused with.

.venv/bin/python -m pytest tests/cases/test_stream.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.acceptance.load_stream import Refused, stream_for

CASES = sorted((Path(__file__).parent / "stream").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_says_what_was_recorded(path: Path) -> None:
    case = json.loads(path.read_text())
    stream, expect = stream_for(case["endpoint"]), case["expect"]
    refused = None
    try:
        for seconds, line in case["lines"]:
            stream.feed(line, seconds)
        stream.close()
    except Refused as error:
        refused = str(error)
    words = expect.pop("refused", None)
    assert (refused is None) == (words is None), refused
    assert words is None or words in str(refused)
    got = {name: getattr(stream, name) for name in expect}
    got = {name: [list(one) for one in value] if name == "arrivals" else value for name, value in got.items()}
    assert got == expect
    assert expect, "a case says something"
    if stream.arrivals:
        assert [have for _, have in stream.arrivals] == sorted({have for _, have in stream.arrivals})


def test_the_counters_are_whole_at_the_end() -> None:
    case = json.loads((Path(__file__).parent / "stream" / "generate-speculating.json").read_text())
    stream = stream_for(case["endpoint"])
    for seconds, line in case["lines"]:
        stream.feed(line, seconds)
    last = json.loads(case["lines"][-2][1].removeprefix("data: "))
    assert stream.meta == last["meta_info"]
    assert stream.meta["spec_accept_histogram"] == [1, 1, 1, 1]
