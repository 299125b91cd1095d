"""Captures of the real engine: batches, chunked prefill, trees of drafts, the case's miswiring on two ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers.acceptance import Prompt
from helpers.box import Box
from helpers.cli import main
from helpers.commands import wiring
from helpers.errors import RemoteFailed
from helpers.paths import DATA, ROOT
from helpers.serving import Profile, Run, Speculation, serving
from helpers.serving.capture import armed, capture
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import diagnose

DUMP = DATA / "lab" / "dump"


@pytest.fixture(scope="module")
def samples() -> list[Prompt]:
    return [Prompt(f"s{i}", tuple(sample.token_ids.tolist())) for i, sample in enumerate(read_dump(DUMP))][:4]


@pytest.fixture(scope="module")
def chunking(box: Box, profiles: dict[str, Profile]) -> Iterator[Run]:
    """A right server that prefills 50 tokens at a time."""
    extra = (*profiles["right"].extra_args, "--chunked-prefill-size", "50")
    profile = profiles["right"].model_copy(update={"capture": True, "extra_args": extra})
    with serving(box, profile, progress=False) as served:
        yield served.run


def ladder(capture: Capture, index: int) -> torch.Tensor:
    """All boundaries of one request, [boundaries, tokens, hidden]."""
    request, rank = capture.info.requests[index], capture.ranks[0]
    rows = slice(request.start, request.start + request.length)
    return torch.stack([rank.tensor(f"boundary.{b:03d}")[rows] for b in rank.boundaries])


def feed_is(capture: Capture, *boundaries: int) -> bool:
    rank = capture.ranks[0]
    assert rank.feed_rows is not None
    taps = [rank.tensor(f"boundary.{b:03d}")[rank.feed_rows] for b in boundaries]
    return torch.equal(rank.tensor("feed"), torch.cat(taps, dim=1))


def test_batches_and_chunks_give_the_states_of_the_whole_text(
    box: Box, chunking: Run, samples: list[Prompt], tmp_path: Path
) -> None:
    """Rows from chunked prefills and verify passes, four requests at a time, against one prefill of each text."""
    capture(box, chunking, samples, max_new_tokens=24, out=tmp_path / "a", concurrency=4, progress=False)
    mixed = read_capture(tmp_path / "a", verify=True)
    tokens = mixed.ranks[0].token_ids
    texts = [Prompt(r.id, tuple(tokens[r.start : r.start + r.length].tolist())) for r in mixed.info.requests]
    capture(box, chunking, texts, max_new_tokens=1, out=tmp_path / "b", progress=False)
    plain = read_capture(tmp_path / "b", verify=True)
    assert feed_is(mixed, 2, 5, 9)
    assert feed_is(plain, 2, 5, 9)
    for i, text in enumerate(texts):
        assert len(text.input_ids) > len(samples[i].input_ids) + 10
        one, other = ladder(mixed, i), ladder(plain, i)
        # Not bit-equal: a batch adds in another order. A rejected or misplaced row would be off by its own length.
        assert float((one - other).abs().max()) < 1e-3 * float(other.abs().max())
    written = json.loads((tmp_path / "a" / "capture.json").read_text())
    assert written["rows"]["rejected"] > 0
    assert written["rows"]["foreign"] == 0
    assert written["tapped"] == {"layers": [2, 5, 9], "embedding": False}
    assert mixed.info.aux_layer_ids == [1, 4, 8]
    assert mixed.info.launch["cuda_graph"] is False


def test_the_feed_alone(box: Box, chunking: Run, samples: list[Prompt], tmp_path: Path) -> None:
    capture(box, chunking, samples[:1], boundaries="none", out=tmp_path / "c", progress=False)
    found = read_capture(tmp_path / "c")
    assert (found.ranks[0].boundaries, found.slots) == ([], 3)
    # Slots are known by each other where there is no ladder.
    assert diagnose(found, read_dump(DUMP), convention=SGLANG_059_DEEPSEEK).codes() == ["features-match"]


def test_starts_of_texts_show_rows_of_answers(box: Box, chunking: Run, samples: list[Prompt], tmp_path: Path) -> None:
    """Whole samples have rows of prompts alone, and a match leaves others open; after a start the server answers."""
    dump = read_dump(DUMP)
    capture(box, chunking, samples, max_new_tokens=1, out=tmp_path / "whole", progress=False)
    whole = diagnose(read_capture(tmp_path / "whole"), dump, convention=SGLANG_059_DEEPSEEK)
    assert whole.aligned is not None
    assert whole.aligned.answer_rows == 0
    assert "features-match" in {one.code for one in whole.undecided}
    assert (
        cli(["capture", "lab", chunking.id, "--replay", str(DUMP), "--starts", "--limit", "4"], tmp_path / "cut") == 0
    )
    cut = diagnose(read_capture(tmp_path / "cut"), dump, convention=SGLANG_059_DEEPSEEK)
    assert cut.codes() == ["features-match"]
    assert cut.aligned is not None
    assert cut.aligned.answer_rows > 4 * 16
    assert "features-match" not in {one.code for one in cut.undecided}


def cli(words: list[str], out: Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--out", str(out)])
    return int(ended.value.code or 0)


def test_one_capture_at_a_time(box: Box, chunking: Run, samples: list[Prompt], tmp_path: Path) -> None:
    with (
        armed(box, f"{chunking.folder}/taps/arm.json", {"by": "somebody else"}),
        pytest.raises(RemoteFailed, match="somebody else"),
    ):
        capture(box, chunking, samples[:1], out=tmp_path / "c", progress=False)
    assert list(tmp_path.iterdir()) == []
    capture(box, chunking, samples[:1], max_new_tokens=1, out=tmp_path / "c", progress=False)


def test_what_the_server_refuses_is_said_and_disarms(box: Box, chunking: Run, tmp_path: Path) -> None:
    with pytest.raises(RemoteFailed, match="WB-CAPTURE-REQUEST"):
        capture(box, chunking, [Prompt("long", tuple([5] * 5000))], out=tmp_path / "c", progress=False)
    assert list(tmp_path.iterdir()) == []
    assert not box.run(["test", "-e", f"{chunking.folder}/taps/arm.json"], check=False).ok


def taps(box: Box, run: Run) -> list[str]:
    return box.run(["ls", "-A", f"{run.folder}/taps"]).stdout.split()


def writes(box: Box, run: Run, before: list[str]) -> bool:
    """Whether a capture's first chunk is there."""
    found = box.run(["find", f"{run.folder}/taps", "-name", "*.safetensors", "-path", "*/chunks/*"]).stdout
    return any(name not in before for name in taps(box, run)) and found != ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_capture_that_is_ended_disarms_and_takes_its_chunks_along(
    box: Box, chunking: Run, tmp_path: Path, number: signal.Signals
) -> None:
    before = taps(box, chunking)
    words = ["capture", "lab", chunking.id, "--replay", str(DUMP), "--max-new-tokens", "100", "--out", "c"]
    argv = [sys.executable, "-m", "helpers.cli", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, env=env, start_new_session=True) as process:
        while not writes(box, chunking, before):
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert told.endswith(b"interrupted\n")
    assert taps(box, chunking) == before
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_meanwhile_is_said_to_be_dead(box: Box, chunking: Run, tmp_path: Path) -> None:
    """The last test of this server."""
    before = taps(box, chunking)

    def kill() -> None:
        while not writes(box, chunking, before):
            time.sleep(0.1)
        os.killpg(chunking.pgid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RemoteFailed, match=f"{chunking.id} is dead") as caught:
        capture(box, chunking, [Prompt("p", (5,) * 100)], max_new_tokens=400, out=tmp_path / "c", progress=False)
    killer.join()
    assert caught.value.code == "WB-CAPTURE-REQUEST"
    assert caught.value.lines
    assert taps(box, chunking) == [name for name in before if name != "arm.json"]


def test_trees_of_drafts(box: Box, profiles: dict[str, Profile], samples: list[Prompt], tmp_path: Path) -> None:
    tree = Speculation(num_steps=3, topk=2, num_draft_tokens=6)
    profile = profiles["right"].model_copy(update={"capture": True, "speculation": tree})
    with serving(box, profile, progress=False) as served:
        capture(box, served.run, samples[:2], max_new_tokens=24, out=tmp_path / "t", progress=False)
    found = read_capture(tmp_path / "t", verify=True)
    assert feed_is(found, 2, 5, 9)
    for request in found.info.requests:
        positions = found.ranks[0].positions[request.start : request.start + request.length]
        assert torch.equal(positions, torch.arange(request.length))
        assert request.length > request.prompt_tokens + 10


def test_the_case_on_two_ranks(
    box: Box, profiles: dict[str, Profile], samples: list[Prompt], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = profiles["miswired"].model_copy(update={"capture": True, "tp": 2})
    with serving(box, profile, progress=False) as served:
        capture(box, served.run, samples, max_new_tokens=1, out=tmp_path / "m", progress=False)
    found = read_capture(tmp_path / "m", verify=True)
    assert feed_is(found, 0, 2, 5)
    diagnosis = diagnose(found, read_dump(DUMP), convention=SGLANG_059_DEEPSEEK, draft=DATA / "lab" / "drafter")
    assert [(f.code, f.slot) for f in diagnosis.findings] == [
        ("slot-embedding", 0),
        ("slot-wrong", 1),
        ("slot-wrong", 2),
    ]
    assert [f.evidence["equals_trained_slot"] for f in diagnosis.findings[1:]] == [0, 1]
    assert diagnosis.fix is not None
    assert diagnosis.fix.aux_layer_ids == [1, 4, 8]
    assert (diagnosis.ranks.ranks, diagnosis.ranks.equal) == (2, True)
    assert wiring.diagnose(tmp_path / "m", DUMP, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "mismatch"
