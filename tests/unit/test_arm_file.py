"""The arm file: one capture's at a time, kept fresh while it goes on, lapsed when its laptop is gone.

.venv/bin/python -m pytest tests/unit/test_arm_file.py
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from remote import arming


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    return tmp_path / "taps" / "arm.json"


def order(arm: Path, capture: str, seconds: float | None = 60) -> dict[str, Any]:
    content = {"capture": capture, "by": f"{capture}@x", "directory": str(arm.parent / capture / "chunks")}
    return {"arm": str(arm), "order": content if seconds is None else {**content, "seconds": seconds}}


def age(arm: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(arm, (then, then))


def chunk(arm: Path, capture: str) -> Path:
    path = arm.parent / capture / "chunks" / "rank0.1.target.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_one_capture_at_a_time(arm: Path) -> None:
    assert arming.arm(order(arm, "a")) == {"armed": True}
    assert arming.arm(order(arm, "b")) == {"armed": False, "by": "a@x", "capture": "a"}
    assert arming.disarm({"arm": str(arm), "capture": "b"}) == {"disarmed": False}
    assert json.loads(arm.read_text())["capture"] == "a"
    assert arming.disarm({"arm": str(arm), "capture": "a"}) == {"disarmed": True}
    assert list(arm.parent.iterdir()) == []


def test_of_many_at_once_one_is_armed(arm: Path) -> None:
    answers: list[dict[str, Any]] = []
    names = [f"c{i}" for i in range(8)]
    threads = [threading.Thread(target=lambda n=n: answers.append(arming.arm(order(arm, n)))) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answer["armed"] for answer in answers) == 1


def test_what_nobody_renewed_lapses_and_its_chunks_go(arm: Path) -> None:
    arming.arm(order(arm, "a"))
    left = chunk(arm, "a")
    age(arm, 50)
    assert not arming.arm(order(arm, "b"))["armed"]
    age(arm, 61)
    assert arming.arm(order(arm, "b"))["armed"]
    assert not left.parent.parent.exists()
    assert arming.renew({"arm": str(arm), "capture": "a"}) == {"renewed": False}


def test_a_renewed_one_does_not_lapse(arm: Path) -> None:
    arming.arm(order(arm, "a"))
    age(arm, 61)
    assert arming.renew({"arm": str(arm), "capture": "a"}) == {"renewed": True}
    assert not arming.arm(order(arm, "b"))["armed"]


def test_only_unfinished_captures_of_this_run_go(arm: Path, tmp_path: Path) -> None:
    """A finished one stays, and so does whatever another folder holds, whatever a file says."""
    arming.arm(order(arm, "a"))
    done = chunk(arm, "a").parent.parent / "capture.json"
    done.touch()
    age(arm, 61)
    arming.arm(order(arm, "b"))
    assert done.exists()
    foreign = tmp_path / "mine" / "chunks"
    foreign.mkdir(parents=True)
    arm.write_text(json.dumps({"directory": str(foreign), "seconds": 0}))
    age(arm, 5)
    assert arming.arm(order(arm, "c"))["armed"]
    assert foreign.exists()


def test_a_discarded_capture_stays_away(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what a pass that was under way writes when the folder is gone already."""
    monkeypatch.setattr(arming, "LATE", 0.6)
    arm.parent.mkdir()
    chunk(arm, "a")
    written = threading.Event()

    def late() -> None:
        while not written.is_set():  # the folder may go between two of its calls: a hook's next pass tries again
            with contextlib.suppress(FileNotFoundError):
                chunk(arm, "a")
                written.set()

    timer = threading.Timer(0.3, late)
    timer.start()
    assert arming.discard({"arm": str(arm), "capture": "a"}) == {"discarded": True}
    timer.join()
    assert written.is_set()
    assert not (arm.parent / "a").exists()
