"""A real training of a few steps, whole and killed: both leave the same files.

.venv/bin/python -m pytest tests/contract/test_recipe_run.py
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from helpers.acceptance import read_prompts
from helpers.paths import ROOT
from helpers.tensors.dumps import read_dump
from remote.lab.recipe.state import read_losses

NAMES = (
    "target/model.safetensors",
    "target/tokenizer.json",
    "drafter/model.safetensors",
    "mirror/drafter/model.safetensors",
)
FILES = (
    *NAMES,
    "losses.jsonl",
    "lab-heldout.jsonl",
    "lab-fresh.jsonl",
    "dump/data_0.pt",
    "mirror/dump/data_3.pt",
    "measured.json",
    "MODEL_CARD.md",
)


def command(out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "remote.lab.recipe", "--budget", "tiny", "--out", str(out), *words]


def train(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(out, *words), capture_output=True, text=True, cwd=ROOT, timeout=200)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recipe") / "whole"
    done = train(out, "--text", "helpers")
    assert done.returncode == 0, done.stderr
    assert "drafter" in done.stderr
    assert done.stdout.strip() == str(out / "MODEL_CARD.md")
    return out


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in FILES}


def test_what_is_written(whole: Path) -> None:
    stages = [(line["stage"], line["step"]) for line in read_losses(whole / "losses.jsonl")]
    assert stages[:4] == [("target", 2), ("target", 4), ("target", 6), ("unloop", 1)]
    assert {stage for stage, _ in stages[4:]} == {"drafter", "mirror"}
    assert {str(t.dtype) for n, t in load_file(whole / "target/model.safetensors").items() if "bias" not in n} == {
        "torch.bfloat16"
    }
    config = json.loads((whole / "mirror/drafter/config.json").read_text())
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 4, 8]
    prompts = read_prompts(whole / "lab-heldout.jsonl")
    right, mirror = read_dump(whole / "dump"), read_dump(whole / "mirror/dump")
    assert (right.format, right.slots, len(right)) == ("speculators-v1", 3, 4)
    for prompt, one, other in zip(prompts, right, mirror, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert tuple(one.token_ids[: len(prompt.input_ids)].tolist()) == tuple(prompt.input_ids)
        assert not (one.open().rows(slice(None))[:, 0] == other.open().rows(slice(None))[:, 0]).all()
        assert (one.open().rows(slice(None))[:, 0] == other.open().rows(slice(None))[:, 1]).all()  # boundary 2
    fresh = {prompt.input_ids for prompt in read_prompts(whole / "lab-fresh.jsonl")}
    assert len(fresh) == 2 * len(prompts)
    assert not fresh & {prompt.input_ids for prompt in prompts}
    (run,) = map(json.loads, (whole / "runs.jsonl").read_text().splitlines())
    assert (run["ended"], run["resumed"]) == ("done", False)
    assert 0 < run["wall_s"] < 200
    assert run["processor_s"] > 0
    card = (whole / "MODEL_CARD.md").read_text()
    assert "{" not in card
    assert "seed 1" in card
    assert "helpers (whatever its files say)" in card
    assert "--text FOLDER" in card
    assert "loops were not looked for in texts of 16 tokens" in card


@pytest.mark.full
def test_killed_again_and_again_it_ends_as_if_it_had_not_been(whole: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments; each time the same command goes on."""
    out, chance, kills = tmp_path / "killed", random.Random(0), 0
    while True:
        with subprocess.Popen(
            command(out, "--text", "helpers"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            seen, last = 0, chance.randint(1, 3)
            for line in process.stderr:
                seen += " of " in line
                if kills < 4 and seen >= last:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert kills == 4
    assert digests(out) == digests(whole)


def test_another_seed_in_the_same_folder_is_refused(whole: Path) -> None:
    before = digests(whole)
    done = train(whole, "--text", "helpers", "--seed", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "\nWB-RECIPE-OUT" in done.stderr
    assert digests(whole) == before


def test_another_text_in_the_same_folder_is_refused(whole: Path) -> None:
    before = digests(whole)
    done = train(whole, "--text", "remote")
    assert (done.returncode, done.stdout) == (2, "")
    assert "WB-RECIPE-OUT" in done.stderr
    assert "corpus" in done.stderr
    assert digests(whole) == before


def test_other_versions_in_the_same_folder_are_refused(whole: Path, tmp_path: Path) -> None:
    begun = json.loads((whole / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(begun | {"torch": "1.0"}))
    done = train(tmp_path, "--text", "helpers")
    assert done.returncode == 2
    assert "torch 1.0, not " in done.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = train(tmp_path / "file" / "out", "--text", "helpers")
    assert (done.returncode, done.stderr[:15]) == (4, "WB-RECIPE-WRITE")
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 64; exec {shlex.join(command(tmp_path / 'out', '--text', 'helpers'))}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=200,
    )
    assert done.returncode == 4
    assert "WB-RECIPE-WRITE" in done.stderr
    assert "Traceback" not in done.stderr


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text/one.py").write_text("x = 1\n" * 200)
    done = train(tmp_path / "out", "--text", str(tmp_path / "text"))
    assert done.returncode == 2
    assert "WB-RECIPE-TEXT" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out/run.json").exists(), "the folder can be given another text"


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path / "out", "--text", "helpers"),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stderr is not None
        assert "corpus" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.endswith("goes on from the last checkpoint\n")
    assert json.loads((tmp_path / "out/runs.jsonl").read_text())["ended"] == "KeyboardInterrupt"
    assert "Traceback" not in told
