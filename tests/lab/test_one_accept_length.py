"""One run of a real server, read from its answers, its log, /metrics and /server_info: one accept length.

The prompts end where a verify step ends, so no draft is cut off; how many steps they take is known (float32, greedy,
one at a time), and one log interval is made to hold them all: the first pass is the warm-up line, the second the run.

.venv/bin/python -m pytest tests/lab/test_one_accept_length.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.acceptance import Prompt
from helpers.acceptance.sources import Counters, follow, read_counters, read_log
from helpers.box import Box
from helpers.errors import WorkbookError
from helpers.paths import ROOT
from helpers.serving import Profile, serving

# New tokens of the eight prompts at the end of a verify step, and the steps that all of them take. They are the pair's:
# with another one, each chunk of a stream ends where a verify step does (`arrivals` of `run_load`'s answers).
LENGTHS = (21, 22, 24, 23, 22, 24, 23, 22)
STEPS = 74
COUNTERS = [sys.executable, "-m", "helpers.cli", "counters", "lab"]


@dataclass(frozen=True)
class Seen:
    """What one server left behind: files of the second pass, and of a third whose answers end within a step."""

    folder: Path
    run: str
    followed: list[Counters]
    told_growing: list[str]
    status_growing: int

    def read(self, name: str, **options: Any) -> Counters:
        return read_counters(self.folder / name, **options)


def save(client: httpx.Client, prompts: list[Prompt], lengths: tuple[int, ...], path: Path) -> None:
    answers = []
    for prompt, length in zip(prompts, lengths, strict=True):
        sampling = {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}
        body = {"input_ids": list(prompt.input_ids), "sampling_params": sampling}
        answers.append(client.post("/generate", json=body).raise_for_status().text)
    path.write_text("\n".join(answers) + "\n")


@pytest.fixture(scope="module")
def seen(
    box: Box, profiles: dict[str, Profile], prompts: list[Prompt], tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    folder, right = tmp_path_factory.mktemp("counters"), profiles["right"]
    interval = (*right.extra_args, "--decode-log-interval", str(STEPS))
    profile = right.model_copy(update={"extra_args": interval})
    with serving(box, profile, progress=False) as served:
        growing = subprocess.Popen([*COUNTERS, served.run.id, "--follow"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert growing.stdout is not None
        with httpx.Client(base_url=served.url, timeout=120, trust_env=False) as client:
            save(client, prompts, LENGTHS, folder / "first.jsonl")
            with pytest.raises(WorkbookError, match="warm-up line dropped"):
                read_log(served.run.logs())
            save(client, prompts, LENGTHS, folder / "answers.jsonl")
            (folder / "metrics.txt").write_text(client.get("/metrics").text)
            (folder / "server_info.json").write_text(client.get("/server_info").text)
            (folder / "server.log").write_text("\n".join(served.run.logs()) + "\n")
            told = [growing.stdout.readline()]  # while the server lives
            save(client, prompts, (24,) * 8, folder / "cut.jsonl")
        run = served.run
    told += growing.communicate(timeout=120)[0].splitlines()  # it ends with the server
    return Seen(folder, run.id, list(follow(run.logs(follow=True))), told, growing.returncode)


def test_the_passes_are_the_steps_that_the_interval_holds(seen: Seen) -> None:
    for name in ("first.jsonl", "answers.jsonl"):
        assert seen.read(name).n.verify_steps == STEPS


def test_four_sources_give_one_accept_length(seen: Seen) -> None:
    answers = seen.read("answers.jsonl")
    assert answers.accept_length is not None
    assert answers.tokens_per_step == pytest.approx(answers.accept_length)  # nothing was cut off
    log, page, info = (seen.read(name) for name in ("server.log", "metrics.txt", "server_info.json"))
    assert [found.source for found in (answers, log, page, info)] == [
        "sglang-responses",
        "sglang-log",
        "sglang-metrics",
        "sglang-server-info",
    ]
    assert log.n.lines == 1
    assert log.accept_length == pytest.approx(answers.accept_length, abs=0.005)  # two decimals in the log
    assert page.accept_length == pytest.approx(answers.accept_length, rel=1e-9)
    assert info.accept_length == pytest.approx(answers.accept_length, rel=1e-9)
    for found in (log, page, info):
        assert found.accept_rate == pytest.approx(answers.accept_rate, abs=0.002)


def test_each_source_says_what_it_had_meant(seen: Seen) -> None:
    log, page = seen.read("server.log").definition, seen.read("metrics.txt").definition
    for definition in (log, page):
        assert "L/N" in definition
        assert "where correct / proposed drafts is" in definition
    assert "last decode log interval only" in page
    assert "warm-up included" in seen.read("server_info.json").definition
    assert "as ours" in seen.read("answers.jsonl").definition
    assert any("warm-up line dropped" in warning for warning in seen.read("server.log").warnings)


def test_drafts_beyond_an_answers_end_are_the_difference(seen: Seen) -> None:
    """meta_info counts them, the log does not, so short answers part the two; the tool gives both and says why."""
    found = seen.read("cut.jsonl")
    assert found.accept_length is not None
    assert found.tokens_per_step is not None
    assert found.tokens_per_step < found.accept_length - 0.05
    assert f"(completion tokens - 1) / verify steps = {found.tokens_per_step:.3f}" in found.definition
    assert "Drafts beyond a request's end are not counted" in seen.read("server.log").definition


def test_the_log_is_read_on_the_box_and_as_it_grows(seen: Seen) -> None:
    done = subprocess.run(
        [*COUNTERS, seen.run, "--json"], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    told = json.loads(done.stdout)
    assert told["n"] == {"verify_steps": None, "lines": 2}  # the third pass filled another interval
    assert [found.n.lines for found in seen.followed] == [1, 2]
    assert seen.followed[0].accept_length == seen.read("server.log").accept_length
    assert seen.followed[1].accept_length == told["accept_length"]
    assert [line.split()[:2] for line in seen.told_growing] == [["1", "lines"], ["2", "lines"]]
    assert seen.status_growing == 0
