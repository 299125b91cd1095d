"""The lab's own source by command: golden lines, patches there and back, hostile input, preflight; one real server.

.venv/bin/python -m pytest tests/lab/test_source.py
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from helpers.box import Box
from helpers.errors import RemoteFailed
from helpers.paths import DATA, ROOT
from helpers.serving import get_profile, launch
from helpers.source import patches
from helpers.tensors.dumps import read_dump

FILE = "sglang/srt/models/deepseek_v2.py"
GREP = r"embed_tokens\|VocabParallelEmbedding"
STOCK_LINES = [120, 2531, 2537, 2591, 2628, 2641, 2676]
PATCHED_LINES = [120, 2531, 2537, 2591, 2628, 2642, 2677, 2821, 2903, 2950]


def workbook(*words: str) -> tuple[int, Any, str]:
    """Exit status, the JSON on stdout, stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers.cli", *words], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def lines(*words: str) -> list[int]:
    status, found, _ = workbook("grep", "lab", "--json", *words)
    assert status == 0
    return [item["line"] for item in found]


@pytest.fixture
def file(lab_home: Path) -> Iterator[Path]:
    """The model file on the lab's box; it is stock before and after."""
    path = lab_home / "home/sglang/python" / FILE
    stock = path.read_bytes()
    yield path
    assert path.read_bytes() == stock


@pytest.mark.usefixtures("box")
def test_golden_lines_before_with_and_after_the_cases_patch(file: Path) -> None:
    stock = hashlib.sha256(file.read_bytes()).hexdigest()
    assert lines(GREP, FILE)[:7] == STOCK_LINES
    status, applied, _ = workbook("patch", "lab", "apply", "capture-embedding", "--json")
    assert (status, applied["state"], applied["changed"], applied["files"][0]["before"]) == (0, "applied", True, stock)
    assert lines(GREP, FILE)[:10] == PATCHED_LINES
    status, shown, _ = workbook("show", "lab", FILE, "2630:2640", "--json")
    text = [item["text"].strip() for item in shown]
    assert text[:3] == [")", "self.layers_to_capture = []", "self.capture_embedding_for_eagle3 = False"]
    assert text[4:8] == ["self.enable_a2a_moe = True", "else:", "self.enable_a2a_moe = False", ""]
    assert lines("self.enable_a2a_moe", FILE) == [2634, 2636, 2727]
    assert workbook("patch", "lab", "apply", "capture-embedding", "--json")[1]["changed"] is False
    status, reverted, _ = workbook("patch", "lab", "revert", "capture-embedding", "--json")
    assert (status, reverted["proven"], reverted["files"][0]["sha256"]) == (0, True, stock)
    assert lines(GREP, FILE)[:7] == STOCK_LINES


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("grep", "lab", "--json", "x", "no/such.py"), 4, "WB-FILE-MISSING"),
        (("grep", "lab", "--json", "x", "sglang"), 4, "WB-FILE-MISSING"),
        (("grep", "lab", "--json", "x", "/dev/zero"), 4, "WB-FILE-MISSING"),
        (("grep", "lab", "--json", "--", "x", "--help"), 4, "WB-FILE-MISSING"),
        (("grep", "lab", "--json", r"\(", FILE), 2, "WB-GREP-PATTERN"),
        (("grep", "lab", "--json", "-E", "-F", "x", FILE), 2, "WB-USAGE"),
        (("grep", "lab", "--json", "x", "a\nb\udcff"), 4, "WB-FILE-MISSING"),
        (("show", "lab", "--json", FILE, "9000:9001"), 2, "WB-SHOW-RANGE"),
        (("show", "lab", "--json", "$(reboot)", "1:2"), 4, "WB-FILE-MISSING"),
        (("patch", "lab", "--json", "apply", "no-such"), 2, "WB-PATCH-UNKNOWN"),
        (("patch", "lab", "--json", "apply", "/no/such.patch"), 2, "WB-PATCH-UNKNOWN"),
        (("patch", "lab", "--json", "ids", "~/no/such", "--ids=1"), 4, "WB-FILE-MISSING"),
        (("patch", "lab", "--json", "ids", "~/models/drafter", "--ids=a"), 2, "WB-USAGE"),
        (("patch", "lab", "--json", "apply", "capture-embedding", "--ids=1"), 2, "WB-USAGE"),
        (("preflight", "--json"), 2, "WB-USAGE"),
        (("preflight", "--json", "--source", "/nowhere"), 2, "WB-SOURCE-FOLDER"),
        (("preflight", "--json", "--source", ".", "lab"), 2, "WB-USAGE"),
        (("preflight", "--json", "lab", "--name", "rihgt"), 2, "WB-PROFILE-UNKNOWN"),
        (("preflight", "--json", "lab", "--gpu", "X100"), 2, "WB-GPU-UNKNOWN"),
    ],
)
def test_bad_input_is_one_clear_error(file: Path, words: tuple[str, ...], status: int, code: str) -> None:
    found, answer, text = workbook(*words)
    assert (found, answer["error"]["code"]) == (status, code)
    assert f"docs/errors/{code}.md" in text


@pytest.mark.usefixtures("box")
def test_preflight_on_the_box_itself() -> None:
    for name in ("baseline", "right"):
        status, report, _ = workbook("preflight", "lab", "--name", name, "--json")
        assert (status, report["findings"], report["unread"]) == (0, [], {})
    status, report, _ = workbook("preflight", "lab", "--name", "off-by-one", "--json")
    assert (status, [f["code"] for f in report["findings"]]) == (1, ["ids-overridden"])
    statements = {s["topic"]: s for s in report["wiring"]["statements"]}
    assert statements["taps"]["evidence"][0]["line"] == 2728


def test_the_verdict_of_preflight_does_not_hang_on_what_is_in_the_checkout_at_the_moment(box: Box) -> None:
    def look() -> tuple[int, list[str], str]:
        status, report, _ = workbook("preflight", "lab", "--name", "miswired", "--json")
        told = [f["summary"] for f in report["findings"] if f["code"] == "source-differs-now"]
        return status, [f["code"] for f in report["findings"] if f["severity"] != "info"], "".join(told)

    status, codes, told = look()
    assert (status, codes) == (1, ["ids-overridden"])
    assert "capture-embedding is not in it, and a start waits for that" in told
    patches.apply(box, "capture-embedding")
    try:
        assert look() == (1, ["ids-overridden"], "")
        patches.apply(box, "dump-hidden-states")
        status, codes, told = look()
        assert (status, codes) == (1, ["ids-overridden"])
        assert "dump-hidden-states is in it, and this profile does not name that" in told
    finally:
        patches.revert(box, "dump-hidden-states")
        assert patches.revert(box, "capture-embedding").proven


def test_a_server_is_told_that_it_runs_the_old_text_and_one_with_the_dump_patch_writes_what_training_sees(
    box: Box, file: Path, tmp_path: Path
) -> None:
    """A text of the lab's own training dump, dumped again by a real server: the same tokens, the same taps."""
    trained = read_dump(DATA / "lab/dump")[0]
    profile = get_profile("right")
    env = {"SGLANG_DUMP_HIDDEN_STATES": "~/dump"}
    profile = profile.model_copy(update={"env": env, "patches": ("dump-hidden-states",)})
    python = profile.python
    patches.apply(box, "dump-hidden-states", python=python)
    time.sleep(1.1)  # a start is known to the second
    run = launch(box, profile, progress=False)
    try:
        run.wait_ready(180, progress=False)
        assert patches.status(box, "dump-hidden-states", python=python).servers == ()
        with run.tunnel() as tunnel:
            request = {
                "input_ids": trained.token_ids.tolist(),
                "sampling_params": {"max_new_tokens": 4, "temperature": 0},
            }
            httpx.post(f"{tunnel.url}/generate", json=request, timeout=120).raise_for_status()
        with pytest.raises(RemoteFailed, match=f"run {run.id} of .*, up since") as caught:
            patches.revert(box, "dump-hidden-states", python=python)
        assert caught.value.code == "WB-PATCH-IN-USE"
        reverted = patches.revert(box, "dump-hidden-states", python=python, force=True)
        assert [(s.pid, s.run) for s in reverted.servers] == [(run.pid, run.id)]
    finally:
        run.stop()
    local = tmp_path / "dump"
    box.pull("~/dump", local, progress=False)
    dumped = [sample for sample in read_dump(local) if torch.equal(sample.token_ids, trained.token_ids)]
    assert len(dumped) == 1
    assert dumped[0].slots.shape == trained.slots.shape
    near = torch.nn.functional.cosine_similarity(dumped[0].slots.float(), trained.slots.float(), dim=-1)
    assert near.min() > 0.98
    assert dumped[0].verifier is not None
