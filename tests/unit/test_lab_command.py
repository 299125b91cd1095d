"""What `make lab-check` refuses before a server is started, and what it says where it is cut on the way.

.venv/bin/python -m pytest tests/unit/test_lab_command.py
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from lab_answers import GOOD

import helpers
from helpers import lab_check
from helpers.acceptance.load_records import Load
from helpers.box import lab
from helpers.errors import RemoteFailed
from helpers.lab_check import command
from helpers.lab_check.asked import Asked, asked
from helpers.ledger import files
from helpers.ledger.files import sha256_of
from helpers.paths import DATA

WORDS = ["--limit", "8"]


class Served:
    """In place of the lab: answers that were written down, as far as it comes."""

    def __init__(self, after: int | None = None, ends: BaseException | int | None = None) -> None:
        self.after, self.ends, self.asked = after, ends, None

    def __call__(self, check: Asked, loads: dict[str, Load]) -> None:
        self.asked = check
        for name in check.names[: self.after]:
            loads[name] = GOOD[name]
        if isinstance(self.ends, int):
            os.kill(os.getpid(), self.ends)
        elif self.ends is not None:
            raise self.ends


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    found = Served()
    monkeypatch.setattr(command, "measure", found)
    return found


@pytest.mark.parametrize(
    ("words", "met", "expected"),
    [
        (["--arms", "rigth;miswired"], "no arm is called 'rigth'", "right; miswired"),
        (["--arms", ""], "--arms '' names no arm", "right; miswired"),
        (["--arms", " ; "], "names no arm", "right; miswired"),
        (["--limit", "0"], "--limit 0", "1 or more"),
        (["--limit", "-3"], "--limit -3", "1 or more"),
        (["--max-new-tokens", "0"], "--max-new-tokens 0", "2 or more"),
        (["--max-new-tokens", "1"], "--max-new-tokens 1", "2 or more"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    served: Served, words: list[str], met: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_check.main(words) == 2
    said = capsys.readouterr().err
    assert "WB-USAGE" in said
    assert met in said
    assert expected in said
    assert served.asked is None


def test_a_mistyped_arm_is_told_the_nearest(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab_check.main(["--arms", "right; mirror, as traned"]) == 2
    assert "did you mean 'mirror, as trained'?" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["no/x.json", ".", "file/x.json"])
def test_a_report_that_could_not_be_written_is_refused_first(
    served: Served, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert lab_check.main(["--out", str(tmp_path / place)]) == 2
    assert "WB-LOCAL-WRITE" in capsys.readouterr().err
    assert served.asked is None


def test_a_report_says_of_what_it_is(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab_check.main([*WORDS, "--out", str(tmp_path / "x.json")]) == 0
    shown = capsys.readouterr().out
    told = json.loads((tmp_path / "x.json").read_text())
    weights = {
        name: sha256_of(DATA / "lab" / name / "model.safetensors") for name in ("target", "drafter", "mirror/drafter")
    }
    prompts = DATA / "prompts" / "lab-heldout.jsonl"
    assert told["of"] == {
        "pair": "data/lab",
        "sha256": weights,
        "prompts": {"file": "data/prompts/lab-heldout.jsonl", "sha256": sha256_of(prompts), "n": 8},
        "max_new_tokens": 64,
        "engine": "sglang==0.5.9",
        "dtype": "float32",
    }
    assert shown.startswith(
        f"pair data/lab (target {weights['target'][:12]}, drafter {weights['drafter'][:12]}, mirror"
    )
    assert told["missing"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert set(asked([*WORDS, "--arms", "right"]).of()["sha256"]) == {"target", "drafter"}


def test_a_disk_that_fills_up_meanwhile_costs_no_table(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(files, "write_whole", full)
    assert lab_check.main([*WORDS, "--out", str(tmp_path / "x.json")]) == 2
    shown = capsys.readouterr()
    assert "| right | " in shown.out
    assert "WB-DISK-FULL" in shown.err


LATER = RemoteFailed("WB-SERVE-DIED", "the third server died")


@pytest.mark.parametrize(
    ("ends", "status", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "interrupted"),
        (signal.SIGHUP, 129, "interrupted"),
        (LATER, 4, "WB-SERVE-DIED"),
    ],
)
def test_what_was_measured_before_the_end_is_told(
    ends: BaseException | int,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "measure", Served(2, ends))
    assert lab_check.main([*WORDS, "--arms", "right;miswired;permuted", "--out", str(tmp_path / "x.json")]) == status
    shown = capsys.readouterr()
    assert "INCOMPLETE: miswired; permuted gave no answers" in shown.out
    assert "| right | " in shown.out
    assert said in shown.err
    assert "no server is left" not in shown.err
    assert json.loads((tmp_path / "x.json").read_text())["missing"] == ["miswired", "permuted"]


def test_an_end_before_the_first_answers_tells_no_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "measure", Served(0, LATER))
    assert lab_check.main(WORDS) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("mine", [True, False])
def test_a_lab_of_ones_own_is_stopped_and_no_other(
    mine: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also at a closed terminal, and a further Ctrl-C meanwhile leaves no half of a lab."""
    stopped: list[object] = []

    def connect(_name: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(lab, "lab_up", lambda: {"started": mine})
    monkeypatch.setattr(lab, "lab_down", lambda: stopped.append(signal.getsignal(signal.SIGINT)))
    monkeypatch.setattr(helpers, "connect", connect)
    assert lab_check.main(WORDS) == 143
    assert stopped == ([signal.SIG_IGN] if mine else [])
    assert ("lab: down, and with it every server" in capsys.readouterr().err) == mine
