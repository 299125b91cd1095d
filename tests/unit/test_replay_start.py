"""Where a search begins: at what a dump matches. .venv/bin/python -m pytest tests/unit/test_replay_start.py"""

from __future__ import annotations

import json
from pathlib import Path

import orders
import pytest
import streams

from helpers import cli
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.features import trained_boundaries


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.parametrize("taps", [(2, 5, 9), (1, 4, 8), (0, 3, 7)])
def test_the_boundaries_that_a_dump_was_captured_at(tmp_path: Path, taps: tuple[int, ...]) -> None:
    texts = streams.texts()
    capture = read_capture(streams.served(texts, (2, 5, 9)).write(tmp_path / "c"))
    assert trained_boundaries(capture, read_dump(streams.write_dump(tmp_path / "d", texts, taps))) == list(taps)


def test_a_dump_of_other_states_is_in_doubt(tmp_path: Path) -> None:
    texts = streams.texts()
    capture = read_capture(streams.served(texts).write(tmp_path / "c"))
    assert trained_boundaries(capture, read_dump(streams.write_dump(tmp_path / "d", texts, seed=5))) is None


def test_the_command_begins_with_the_dumps_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = orders.synthetic(1, tmp_path)
    capture = world.served.write(tmp_path / "c")
    base = ["replay", "--draft", str(world.drafter), "--target", str(world.target), "--capture", str(capture)]
    status, out = run([*base, "--taps", "0,1,2", "--search", "--train", str(world.dump), "--json"], capsys)
    found = json.loads(out)
    assert (status, found["trained"]) == (0, [2, 5, 9])
    assert found["search"]["ranking"][0]["taps"] == [2, 5, 9]
    status, out = run([*base, "--search", "--train", str(world.dump)], capsys)
    assert status == 0
    assert "the dump was captured at [2, 5, 9]" in out
    status, out = run([*base, "--train", str(world.dump), "--json"], capsys)
    assert (status, json.loads(out)["error"]["code"]) == (2, "WB-USAGE")
