"""Real servers: found after a killed kernel, refused before they start, told why they die, patched and put back.

.venv/bin/python -m pytest tests/lab/test_real_servers.py
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from leftovers import processes_with

from helpers.acceptance import read_prompts
from helpers.box import Box
from helpers.errors import RemoteFailed
from helpers.paths import DATA, ROOT
from helpers.serving import find_runs, get_profile, get_run, launch, plan, serving
from helpers.serving.capture import capture
from helpers.source import find_checkout, patches
from helpers.tensors.capture import read_capture
from remote import processes

PATCH = "capture-embedding"
STOCK = "4071b9a6a6ac71e1143204708df42f2ba5bd163a5d7a020579242df56e490a35"
WORKBOOK = [sys.executable, "-m", "helpers.cli"]


def checkout_hash(lab_home: Path) -> str:
    """Over every source file of the lab's SGLang."""
    root = lab_home / "home/sglang/python/sglang"
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def stock(lab_home: Path) -> str:
    """The checkout as it was before the first test; that file of it which the patch changes is the wheel's."""
    file = lab_home / "home/sglang/python/sglang/srt/models/deepseek_v2.py"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == STOCK
    return checkout_hash(lab_home)


@pytest.fixture(autouse=True)
def nothing_stays(lab_home: Path, stock: str) -> Iterator[None]:
    """Each test leaves a stock checkout and no process of any run of this lab.

    A run's processes are known by the mark in their environment: SGLang's workers rename themselves.
    """
    yield
    runs = [path.name for path in (lab_home / "home/.workbook/runs").glob("*")]
    assert [left for run in runs for left in processes_with(f"{processes.MARKER}={run}\0")] == []
    assert checkout_hash(lab_home) == stock


def of_run(run: str) -> list[processes.Process]:
    return processes.marked(run, processes.running())


def workbook(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORKBOOK, *words], capture_output=True, text=True, cwd=ROOT, timeout=120)


def refused(*words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and error of a command that must fail; its text must be one clear message."""
    done = workbook(*words, "--json")
    assert "Traceback" not in done.stderr.split("WB-")[0]
    error: dict[str, Any] = json.loads(done.stdout)["error"]
    assert error["message"]
    assert error["next"]
    assert f"docs/errors/{error['code']}.md" in done.stderr
    return done.returncode, error


def profile_file(tmp_path: Path, name: str, lines: str) -> str:
    """A file with one profile more than the lab's."""
    path = tmp_path / "profiles.toml"
    path.write_text((DATA / "profiles/lab.toml").read_text() + f"\n[profiles.{name}]\n{lines}\n")
    return str(path)


def test_a_killed_kernel_leaves_the_server_to_the_next_one(box: Box) -> None:
    """kill -9 of the launching Python while the real server loads; the next process finds it, waits, asks, stops."""
    code = "import helpers; from helpers.serving import *\n"
    code += "launch(helpers.connect('lab'), get_profile('right')).wait_ready()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True) as kernel:
        assert kernel.stderr is not None
        told = ""
        while "starting (" not in told:
            told += kernel.stderr.readline()
        kernel.send_signal(signal.SIGKILL)
    assert "python3 -m sglang.launch_server" in told  # the command was shown before it ran
    run = find_runs(box, alive=True)[-1]
    assert (run.profile.name, run.answers) == ("right", False)
    assert get_run(box, "right").id == run.id
    run.wait_ready(120, progress=False)
    with run.tunnel() as tunnel:
        request = {"text": "def f(x):", "sampling_params": {"max_new_tokens": 24, "temperature": 0}}
        reply = httpx.post(f"{tunnel.url}/generate", json=request, timeout=60).json()
    assert reply["meta_info"]["spec_verify_ct"] > 0
    assert len(of_run(run.id)) >= 3  # the server, its scheduler and its detokenizer, which rename themselves
    listed = json.loads(workbook("runs", "lab", "--alive", "--json").stdout)["runs"]
    assert [(r["id"], r["answers"]) for r in listed] == [(run.id, True)]
    log = workbook("logs", "lab", run.id, "-n", "400").stdout
    assert "The server is fired up and ready to roll!" in log
    done = workbook("stop", "lab", run.id, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["port_closed"], report["left"], report["orphans"]) == (0, True, [], [])
    assert of_run(run.id) == []


def test_the_command_is_shown_and_nothing_is_started(box: Box) -> None:
    before = len(find_runs(box))
    done = workbook("serve", "lab", "right", "--plan", "--json")
    argv = json.loads(done.stdout)["argv"]
    assert argv[:3] == ["python3", "-m", "sglang.launch_server"]
    assert argv[argv.index("--speculative-draft-model-path") + 1].endswith("/draft")
    assert len(find_runs(box)) == before


def test_bad_input_is_one_clear_error_and_nothing_is_started(box: Box, tmp_path: Path) -> None:
    before = len(find_runs(box))
    status, error = refused("serve", "lab", "rihgt")
    assert (status, error["code"]) == (2, "WB-PROFILE-UNKNOWN")
    assert error["next"].startswith("did you mean 'right'?")
    file = profile_file(tmp_path, "x", 'model = "~/models/nowhere"')
    status, error = refused("serve", "lab", "x", "--profiles", file)
    assert (status, error["code"]) == (4, "WB-SERVE-NO-MODEL")
    assert "/models/nowhere" in error["message"]
    file = profile_file(tmp_path, "x", 'engine = "sglang==0.5.23"')
    status, error = refused("serve", "lab", "x", "--profiles", file)
    assert (status, error["code"]) == (4, "WB-SERVE-ENGINE-VERSION")
    status, error = refused("serve", "lab", "miswired")
    assert (status, error["code"]) == (4, "WB-SERVE-PATCH-MISSING")
    done = workbook("serve", "lab", "miswired", "--plan", "--json")  # the command is shown all the same
    planned = json.loads(done.stdout)
    assert (done.returncode, [e["code"] for e in planned["missing"]]) == (1, ["WB-SERVE-PATCH-MISSING"])
    assert "--speculative-algorithm EAGLE3" in planned["command"]
    port = re.sub(r"\D", "", str(box.port))  # the lab's own SSH server has it
    file = profile_file(tmp_path, "x", f"port = {port}")
    status, error = refused("serve", "lab", "x", "--profiles", file)
    assert (status, error["code"]) == (4, "WB-SERVE-PORT-TAKEN")
    assert len(find_runs(box)) == before


def test_a_server_that_dies_while_loading_is_told_at_once(box: Box, lab_home: Path, tmp_path: Path) -> None:
    """A model folder without weights: config and tokenizer are read, then the scheduler dies."""
    model = lab_home / "home/models/hollow"
    model.mkdir()
    for file in (lab_home / "home/models/target").iterdir():
        if file.suffix != ".safetensors":
            (model / file.name).symlink_to(file.resolve())
    status, error = refused("serve", "lab", "x", "--profiles", profile_file(tmp_path, "x", 'model = "~/models/hollow"'))
    now = time.time()
    assert (status, error["code"]) == (4, "WB-SERVE-MISSING-FILE")
    assert any("RuntimeError: Cannot find any model weights" in line for line in error["lines"])
    run = find_runs(box)[-1]
    assert (run.profile.name, run.state, of_run(run.id)) == ("x", "dead", [])
    assert now - (lab_home / f"home/.workbook/runs/{run.id}/server.log").stat().st_mtime < 5


def test_an_interrupted_serve_leaves_no_process(box: Box) -> None:
    with subprocess.Popen(
        [*WORKBOOK, "serve", "lab", "baseline"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as serve:
        assert serve.stderr is not None
        told = ""
        while "starting (" not in told:
            told += serve.stderr.readline()
        serve.send_signal(signal.SIGINT)
        _, rest = serve.communicate(timeout=60)
    assert serve.returncode == 130
    assert "Traceback" not in rest
    run = get_run(box, "baseline")
    assert (run.state, of_run(run.id)) == ("stopped", [])


def test_the_unpatched_engine_dies_of_minus_one_and_says_so(box: Box) -> None:
    profile = get_profile("miswired").model_copy(update={"patches": ()})
    run = launch(box, profile, progress=False)
    with pytest.raises(RemoteFailed, match="cannot capture unpatched") as caught:
        run.wait_ready(120, progress=False)
    assert caught.value.code == "WB-SERVE-EMBEDDING-TAP"
    assert "workbook patch lab apply capture-embedding" in caught.value.next
    assert of_run(run.id) == []


def test_the_cases_patch_taps_boundaries_0_2_5(box: Box, tmp_path: Path) -> None:
    """Golden lines as seen on the case's box; then what the drafter is fed, bit for bit; then the stock file again."""
    file = f"{find_checkout(box).package}/srt/models/deepseek_v2.py"
    assert patches.plan(box, PATCH).state == "clean"
    assert patches.apply(box, PATCH).changed
    grep = box.run(["grep", "-n", r"embed_tokens\|VocabParallelEmbedding", file]).stdout
    numbers = [int(line.split(":")[0]) for line in grep.splitlines()]
    assert numbers[:10] == [120, 2531, 2537, 2591, 2628, 2642, 2677, 2821, 2903, 2950]
    shown = [line.strip() for line in box.run(["sed", "-n", "2630,2640p", file]).stdout.splitlines()]
    assert shown[:3] == [")", "self.layers_to_capture = []", "self.capture_embedding_for_eagle3 = False"]
    assert (shown[4], shown[6]) == ("self.enable_a2a_moe = True", "self.enable_a2a_moe = False")
    profile = get_profile("miswired").model_copy(update={"capture": True})
    prompts = read_prompts(DATA / "prompts/lab-heldout.jsonl", limit=2)
    with serving(box, profile, progress=False) as served:
        taken = capture(box, served.run, prompts, max_new_tokens=8, out=tmp_path / "capture", progress=False)
        assert [patch.name for patch in served.run.record.patches] == [PATCH]
    rank = read_capture(taken, verify=True).ranks[0]
    assert rank.feed_rows is not None
    feed = rank.tensor("feed")
    slots = feed.split(feed.shape[1] // 3, dim=1)
    for slot, boundary in zip(slots, (0, 2, 5), strict=True):
        assert slot.equal(rank.rows(f"boundary.{boundary:03d}", rank.feed_rows))
    assert patches.status(box, PATCH).state == "applied"  # it was in before the server, so it stays
    assert patches.revert(box, PATCH).proven
    assert patches.status(box, PATCH).files[0].sha256 == STOCK


def test_a_plan_names_what_it_found(box: Box, lab_home: Path) -> None:
    planned = plan(box, get_profile("right"))
    assert planned.checkout.root == str(lab_home / "home/sglang/python")
    assert (planned.checkout.version, planned.patches) == ("0.5.9", ())
