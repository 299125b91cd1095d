"""Counters read through the API and the command: growing logs, tables against time, newer names, exit codes.

What each source says is held by tests/cases/test_counters.py.

.venv/bin/python -m pytest tests/unit/test_counters_api.py
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import cli
from helpers.acceptance.counters import RequestCounters, from_meta_info
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.sources import (
    Counters,
    LogReader,
    Size,
    beside,
    decode_rows,
    figures_of,
    follow,
    kind_of,
    read_blocks,
    read_counters,
    read_log,
)
from helpers.acceptance.sources.lines import LONGEST, Line, split_lines
from helpers.commands.counters import _answers
from helpers.errors import UsageError, WorkbookError, WrongResult

START = "[2026-11-30 05:42:33] server_args=ServerArgs(speculative_num_steps=3, speculative_num_draft_tokens=4)"


def decode(length: float, second: int, *, prefix: str = "", running: int = 1) -> str:
    return (
        f"[2026-11-30 05:43:{second:02d}{prefix}] Decode batch, #running-req: {running}, #token: 9, token usage: 0.00, "
        f"accept len: {length:.2f}, accept rate: {length / 4:.2f}, cuda graph: True, "
        "gen throughput (token/s): 90.00, #queue-req: 0"
    )


def run_cli(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["counters", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(out) if "--json" in words else out, err


def test_newer_names_are_the_same_counters() -> None:
    newer = {
        "spec_verify_ct": 4,
        "spec_num_correct_drafts": 8,
        "spec_num_proposed_drafts": 12,
        "spec_correct_drafts_histogram": [1, 0, 1, 2],
    }
    assert from_meta_info(newer) == RequestCounters((1, 0, 1, 2), 12)
    with pytest.raises(WrongResult, match=r"sum\(histogram\)"):
        from_meta_info(newer | {"spec_verify_ct": 5})
    with pytest.raises(WrongResult, match="spec_correct_drafts_histogram = spec_accept_histogram"):
        from_meta_info(newer | {"spec_accept_histogram": [4]})


def test_a_growing_log_gives_figures_from_the_line_after_the_warm_up() -> None:
    lines = [START, decode(1.0, 0), "another line", decode(2.0, 1), decode(3.0, 2)]
    found = list(follow(lines))
    assert [one.n.lines for one in found] == [1, 2]
    assert [one.accept_length for one in found] == pytest.approx([2.0, 2.5])
    assert found[-1] == read_log(lines)


def test_a_contradiction_ends_following() -> None:
    with pytest.raises(WrongResult, match="accept len 4"):
        list(follow([START, decode(1.0, 0), decode(2.0, 1), decode(4.5, 2)]))


def test_a_log_against_time() -> None:
    lines = [START, *(decode(1.0, s, prefix=f" DP{s} TP0") for s in (0, 1)), "noise", decode(2.0, 2, prefix=" DP0 TP0")]
    table = decode_rows([*lines, decode(3.0, 3, prefix=" DP1 TP0", running=5)])
    assert table.to_dict("records") == [
        {"time": "2026-11-30 05:43:02", "server": "DP0 TP0", "accept_length": 2.0, "running": 1, "throughput": 90.0},
        {"time": "2026-11-30 05:43:03", "server": "DP1 TP0", "accept_length": 3.0, "running": 5, "throughput": 90.0},
    ]


def test_a_long_log_costs_no_more_memory_than_a_short_one() -> None:
    def blocks(count: int) -> Iterator[bytes]:
        for number in range(count):
            yield "\n".join(
                [decode(1 + (number + i) % 300 / 100, i % 60) for i in range(50)] + ["x" * 2000, ""]
            ).encode()

    def peak(count: int) -> int:
        tracemalloc.start()
        read = LogReader().feed_all(split_lines(blocks(count)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert read.result().n.lines == count * 50
        return most

    assert peak(40) < 2 * peak(10)


def test_an_endless_line_is_cut() -> None:
    blocks = [b"x" * (1 << 20)] * 4 + [b"\nshort\n"]
    lines = list(split_lines(blocks))
    assert [line.number for line in lines] == [1, 2]
    assert len(lines[0].text) <= LONGEST
    assert lines[1] == Line(2, "short")


def test_a_files_kind_is_seen_at_its_beginning() -> None:
    assert kind_of(b"\n [\n {}]") == "responses"
    assert kind_of(b'data: {"meta_info": {}}') == "responses"
    assert kind_of(b'sglang:spec_accept_length{tp_rank="0"} 2.3\n') == "metrics"
    assert kind_of(decode(2.0, 1).encode()) == "log"
    assert kind_of(b"") == "log"
    assert kind_of(json.dumps({"level": "info", "message": decode(2.0, 1)}).encode()) == "log"
    assert kind_of(json.dumps({"text": "Decode batch", "meta_info": {}}).encode()) == "responses"
    page = b'sglang:spec_accept_length{tp_rank="0"} 2.0\nsglang:spec_accept_rate{tp_rank="0"} 0.5\n'
    assert read_blocks([page], kind="metrics", draft_tokens=4).accept_length == 2.0
    with pytest.raises(UsageError, match="no acceptance figures"):
        read_blocks([page], kind="log")


def test_two_engines_in_one_log_are_refused() -> None:
    vllm = "SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens"
    with pytest.raises(UsageError, match="1 decode lines of SGLang and 1 lines of vLLM"):
        read_log([decode(2.0, 1), vllm])


def test_an_engine_that_is_no_version_is_refused() -> None:
    with pytest.raises(UsageError, match="names no version"):
        read_log([decode(2.5, 1).replace("0.62", "0.50")], engine="0.5.9")


def test_the_command_prints_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_text("\n".join([START, decode(1.0, 0), decode(2.0, 1), decode(3.0, 2)]))
    status, told, _ = run_cli(str(log), "--json", capsys=capsys)
    assert status == 0
    assert {"accept_length", "accept_rate", "survival", "n", "source", "definition", "warnings"} <= set(told)
    assert (told["accept_length"], told["accept_rate"], told["n"]) == (2.5, 0.5, {"verify_steps": None, "lines": 2})
    _, text, _ = run_cli(str(log), "--engine", "sglang==0.5.9", capsys=capsys)
    assert "accept length 2.500" in text
    assert "meaning: " in text
    assert "warning: warm-up line dropped" in text
    assert read_counters(log).accept_length == 2.5


def test_the_command_refuses_contradictions_and_missing_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.jsonl"
    meta = {"spec_verify_ct": 3, "spec_accept_token_num": 4, "spec_draft_token_num": 9}
    answers.write_text(json.dumps({"meta_info": {**meta, "spec_accept_histogram": [1, 1, 2]}}))
    status, told, err = run_cli(str(answers), "--json", capsys=capsys)
    assert status == 1
    assert told["error"]["code"] == "WB-COUNTERS-CONTRADICT"
    assert told["error"]["expected"] == "identity: sum(histogram) = verify steps"
    assert "docs/errors/WB-COUNTERS-CONTRADICT.md" in err
    status, told, _ = run_cli(str(tmp_path / "none.log"), "--json", capsys=capsys)
    assert (status, told["error"]["code"]) == (2, "WB-COUNTERS-FILE")
    status, told, _ = run_cli(str(answers), "--follow", "--json", capsys=capsys)
    assert (status, told["error"]["code"]) == (2, "WB-USAGE")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="cannot be read"):
        read_counters(tmp_path)


@pytest.mark.parametrize(
    ("log", "answers", "said"),
    [
        (0.578, 0.600, "the lower of the two, by no more than drafts beyond an answer's end can make it (0.080)"),
        (
            0.578,
            0.567,
            "the higher of the two, which drafts beyond an answer's end cannot make it; it is of other ",
        ),
        (0.400, 0.600, "lower by more than drafts beyond an answer's end can make it (at most 0.080); it is of other"),
        (0.600, 0.600, "equal"),
    ],
)
def test_a_log_is_said_to_be_lower_only_where_it_is(log: float, answers: float, said: str) -> None:
    """16 answers over 200 verify steps: their last steps are 8% of all."""
    size = Size(verify_steps=None, lines=3)
    told = {"survival": None, "n": size, "source": "sglang-log", "definition": "", "warnings": []}
    read = Counters.model_validate({"accept_length": 2.7, "accept_rate": log, **told})
    row = Measurement(
        name="mended",
        dtype="float32",
        aux_layer_ids=None,
        boundaries=None,
        requests=16,
        tokens_per_s=1.0,
        greedy_equal=None,
        first_difference=None,
        accept_rate=answers,
        survival=[0.7, 0.6, 0.5],
        verify_steps=200,
    )
    both = f"accept rate {log:.3f} by sglang-log, {answers:.3f} by the answers: "
    assert beside(read, row).startswith(both + said)
    assert "cannot be compared" in beside(read.model_copy(update={"accept_rate": None}), row)


def test_a_log_alone_is_not_said_to_be_the_lower_of_two() -> None:
    """After a bench of the lab its rate stood above that of the answers: it leaves out its warm-up line."""
    found = read_log([START, decode(1.0, 0), decode(2.17, 1)], engine="sglang==0.5.9")
    assert "over the same verify steps this is the lower" in found.definition
    assert "it may stand above them too" in found.definition


def test_a_bench_is_read_by_the_run_that_it_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "mended", "dtype": "float32", "aux_layer_ids": None, "boundaries": None, "requests": 16}
    row |= {"tokens_per_s": 1.0, "greedy_equal": None, "first_difference": None, "run": "mended-1, mended-2"}
    with pytest.raises(UsageError, match=r"it has no summary\.json"):
        _answers(tmp_path, "mended-2")
    (tmp_path / "summary.json").write_text(json.dumps({"arms": [row]}))
    assert _answers(tmp_path, "mended-2").name == _answers(tmp_path, "mended").name == "mended"
    with pytest.raises(UsageError, match="measured no right-1; it has mended, mended-1, mended-2"):
        _answers(tmp_path, "right-1")
    status, _, err = run_cli("server.log", "--bench", str(tmp_path), capsys=capsys)
    assert status == 2
    assert "--bench needs a run on a box" in err


def test_a_log_without_figures_is_said_beside_what_is_known_otherwise() -> None:
    said = figures_of(["INFO: server is ready"])
    assert isinstance(said, str)
    assert said.startswith("no acceptance figures in 1 lines of log: a server")
