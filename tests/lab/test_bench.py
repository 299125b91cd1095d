"""Bench on the real engine: both endpoints, foreign tokens, a server that hangs and one that dies in mid-load, pairs.

.venv/bin/python -m pytest tests/lab/test_bench.py
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.acceptance import LoadSettings, Prompt, bench, compare_profiles, run_load, running
from helpers.box import Box
from helpers.errors import UsageError
from helpers.paths import ROOT
from helpers.progress import Progress
from helpers.serving import Profile, Run, get_run, serving
from remote import processes

WORKBOOK = [sys.executable, "-m", "helpers.cli"]
PROMPTS = ROOT / "data/prompts/lab-heldout.jsonl"


@pytest.fixture(scope="module")
def server(box: Box, profiles: dict[str, Profile]) -> Iterator[Run]:
    """One server for the module; the last test kills it."""
    with serving(box, profiles["right"], progress=False) as served:
        yield served.run


def workbook(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORKBOOK, *words], capture_output=True, text=True, cwd=ROOT, timeout=200)


def signalled(run: Run, number: signal.Signals, name: str = "") -> None:
    """The processes of a run whose name has this part get a signal."""
    found = [p for p in processes.marked(run.id, processes.running()) if name in p.command]
    assert found
    for process in found:
        os.kill(process.pid, number)


def test_both_endpoints_say_the_same(box: Box, server: Run, prompts: list[Prompt], tmp_path: Path) -> None:
    """Tokens and counters from /generate, one at a time and four; the same text from /v1/completions."""
    few = prompts[:4]
    with server.tunnel() as tunnel:
        simple = run_load(tunnel.url, few, max_new_tokens=16, progress=False)
    found = {}
    for name, settings in {
        "one": LoadSettings(max_new_tokens=16),
        "four": LoadSettings(max_new_tokens=16, concurrency=4),
        "openai": LoadSettings(max_new_tokens=16, endpoint="completions"),
        "natural": LoadSettings(max_new_tokens=16, natural_end=True, temperature=0.7, seeds=(1, 2)),
    }.items():
        found[name] = bench([running(box, server)], few, settings, tmp_path / name, progress=False)
        assert not found[name].partial, found[name].failure
    answers = {name: found[name].loads["right"][0].answers for name in found}
    assert [a.output_ids for a in answers["one"]] == [a.output_ids for a in simple.answers]
    assert [a.counters for a in answers["one"]] == [a.counters for a in simple.answers]
    assert [a.text for a in answers["openai"]] == [a.text for a in answers["one"]]
    assert [a.tokens for a in answers["openai"]] == [16] * 4
    for one in answers["one"]:
        assert one.counters is not None
        assert one.arrivals[-1][1] == 16
        # A verify step a chunk after the first; chunks that the tokenizer's process was late for come together.
        assert len(one.arrivals) - 1 <= one.counters.verify_steps
    row = found["one"].arms[0]
    assert row.boundaries == [2, 5, 9]
    assert row.step_s is not None
    assert row.decode_steps == row.verify_steps
    assert found["four"].arms[0].running is not None
    assert found["four"].arms[0].running > 2
    assert (found["openai"].arms[0].accept_rate, found["openai"].arms[0].step_s) == (None, None)
    assert any("tells no counters" in warning for warning in found["openai"].warnings)
    assert len(answers["natural"]) == 8


def test_foreign_tokens_are_refused_and_the_server_lives(box: Box, server: Run, tmp_path: Path) -> None:
    """Sent to it, token 1024 of a vocabulary of 1024 would end the scheduler."""
    with pytest.raises(UsageError, match="token 1 of x") as caught:
        bench([running(box, server)], [Prompt("x", (5, 10**6))], LoadSettings(), tmp_path, progress=False)
    assert caught.value.code == "WB-PROMPTS-VOCABULARY"
    assert not (tmp_path / "requests.jsonl").exists()
    assert get_run(box, server.id).state == "alive"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_names_its_folder_and_the_command_that_goes_on(
    server: Run, tmp_path: Path, number: signal.Signals
) -> None:
    """Typed as it is said, without a folder of one's own choice, it asks only what has no answer yet."""
    words = ["bench", "lab", "right", "--prompts", str(PROMPTS), "--limit", "12", "--new-tokens", "48"]
    where = {**os.environ, "WORKBOOK_INVESTIGATIONS": str(tmp_path)}
    process = subprocess.Popen(
        [*WORKBOOK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=where
    )
    until = time.monotonic() + 120
    while not (rows := [line for path in tmp_path.rglob("requests.jsonl") for line in path.read_text().splitlines()]):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    (folder,) = (tmp_path / "bench").iterdir()
    told = said[said.index("interrupted\n") :]
    assert f"what there is lies in {folder}" in told
    (line,) = [line for line in told.splitlines() if line.startswith("  next: ")]
    again = shlex.split(line.removeprefix("  next: "))
    assert again == ["workbook", *words, "--out", str(folder)]
    done = workbook(*again[1:], "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["answered"], result["asked"]) == (0, 12, 12)
    assert len(rows) <= result["resumed"] < 12


@pytest.mark.timeout(600)
@pytest.mark.full
def test_a_server_that_hangs_and_then_dies_in_mid_load(
    box: Box, server: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP after three requests, and what came counts; woken, the same call goes on; the scheduler killed after five
    more, which SGLang's own server does not notice; then all of it.
    """
    signals = {3: (signal.SIGSTOP, ""), 5: (signal.SIGKILL, "scheduler")}

    def update(self: Progress, stage: str, detail: str = "") -> None:
        done = int(detail.split(" of ")[0]) if " of " in detail else 0
        if done in signals:
            signalled(server, *signals.pop(done))

    monkeypatch.setattr(Progress, "update", update)
    out, common = tmp_path / "bench", {"max_new_tokens": 32, "warmup": 0}
    prompts = [Prompt(f"p{n}", tuple(range(5 + n, 60 + n))) for n in range(12)]
    arm = running(box, server)
    found = bench([arm], prompts, LoadSettings(**common, stall_s=6), out, progress=False)
    assert (found.partial, found.answered) == (True, 3)
    assert found.failure is not None
    assert found.failure.code == "WB-LOAD-STALLED"
    assert "does not answer /health: it hangs" in found.failure.message
    assert found.arms[0].requests == 3
    assert found.arms[0].accept_rate is not None

    signalled(server, signal.SIGCONT)
    patient = LoadSettings(**common, stall_s=250)
    found = bench([arm], prompts, patient, out, progress=False)
    assert (found.resumed, found.partial) == (3, True)
    assert found.answered >= 8
    assert found.failure is not None
    assert found.failure.code == "WB-SERVE-DIED"
    assert f"a worker process of {server.id} died on lab" in found.failure.message
    assert "sglang::schedul" in found.failure.message
    assert f"workbook stop lab {server.id}" in found.failure.next

    signalled(server, signal.SIGKILL)
    found = bench([arm], prompts, patient, out, progress=False)
    assert found.partial
    assert found.failure is not None
    assert found.failure.code == "WB-SERVE-DIED"
    assert f"{server.id} died on lab in the middle of the load" in found.failure.message
    assert found.failure.lines
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    good = [row["prompt"] for row in rows if row["ok"]]
    assert len(good) == len(set(good)) == found.answered
    assert json.loads((out / "summary.json").read_text())["cause"]["code"] == "WB-SERVE-DIED"

    done = workbook("bench", "lab", server.id, "--prompts", str(PROMPTS), "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (4, "WB-BENCH-NOT-RUNNING")


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_pairs_are_restarted_in_turn(
    box: Box, profiles: dict[str, Profile], prompts: list[Prompt], tmp_path: Path
) -> None:
    """Four starts, A B B A; the ratio over both pairs, equal greedy texts; a second call starts nothing."""
    out, settings = tmp_path / "pairs", LoadSettings(max_new_tokens=24)
    found = compare_profiles(
        box, profiles["baseline"], [profiles["right"]], prompts, settings, out=out, pairs=2, progress=False
    )
    assert not found.partial
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    runs = list(dict.fromkeys((row["arm"], row["pass"], row["run"]) for row in rows))
    assert [(arm, turn) for arm, turn, _ in runs] == [("baseline", 0), ("right", 0), ("right", 1), ("baseline", 1)]
    assert len({run for _, _, run in runs}) == 4
    assert all(get_run(box, run).state == "stopped" for _, _, run in runs)
    [against] = found.versus
    assert (against.candidate, against.baseline, against.greedy_equal) == ("right", "baseline", True)
    assert against.speed is not None
    assert (against.speed.pairs, against.speed.prompts) == (2, len(prompts))
    assert against.speed.ci95[0] <= against.speed.ratio <= against.speed.ci95[1]
    needed = against.break_even
    assert needed is not None
    assert (needed.starts, len(needed.by_start)) == (2, 2)
    assert needed.bounds[0] <= min(needed.by_start) <= needed.accept_length <= needed.bounds[1]
    assert found.arms[1].passes == 2
    assert found.warnings == ()
    again = compare_profiles(
        box, profiles["baseline"], [profiles["right"]], prompts, settings, out=out, pairs=2, progress=False
    )
    assert again.resumed == again.asked
    assert again.versus == found.versus
