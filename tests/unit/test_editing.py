"""The box's side of patches as a plain user meets it: folders that may not be written to, links, modes.

.venv/bin/python -m pytest tests/unit/test_editing.py
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import REMOTE

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or "/usr/bin/python3"
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that a plain user reaches, with a checkout of one file and a home."""
    with tempfile.TemporaryDirectory(prefix="workbook-editing-") as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.copytree(REMOTE, place / "code/remote", ignore=lambda _, names: [n for n in names if "." not in n])
        (place / "checkout").mkdir()
        (place / "checkout/f.py").write_text("x = 1\n")
        (place / "home").mkdir()
        if os.getuid() == 0:
            for path in (place / "home", place / "checkout", place / "checkout/f.py"):
                os.chown(path, NOBODY, NOBODY)
        yield place
        (place / "checkout").chmod(0o755)


def edit(place: Path, data: bytes, action: str = "apply") -> dict[str, Any]:
    """One write of the file, as a user who is not root (who may write anywhere)."""
    file = place / "checkout/f.py"
    expect = hashlib.sha256(file.read_bytes()).hexdigest()
    files = [{"path": str(file), "expect": expect, "data": base64.b64encode(data).decode()}]
    entry = {"action": action, "patch": "p", "root": str(place / "checkout"), "files": [], "text": ""}
    done = subprocess.run(
        [PYTHON, "-E", "-s", "-S", "-m", "remote.editing", "write"],
        input=json.dumps({"files": files, "entry": entry}),
        capture_output=True,
        text=True,
        cwd=place / "code",
        env={"HOME": str(place / "home")},
        **({"user": NOBODY, "group": NOBODY} if os.getuid() == 0 else {}),
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def journal(place: Path) -> list[str]:
    path = place / "home/.workbook/patches/journal.jsonl"
    return [json.loads(line)["action"] for line in path.read_text().splitlines()] if path.exists() else []


def test_a_folder_that_may_not_be_written_to(place: Path) -> None:
    (place / "checkout").chmod(0o555)
    for action in ("apply", "revert"):
        answer = edit(place, b"x = 2\n", action)
        assert answer["error"]["code"] == "WB-PATCH-WRITE"
        assert "Permission denied" in answer["error"]["message"]
        assert "nothing was changed" in answer["error"]["message"]
    assert (place / "checkout/f.py").read_text() == "x = 1\n"
    assert [path.name for path in (place / "checkout").iterdir()] == ["f.py"]
    assert journal(place) == ["apply", "undone"]  # as if it had never been


def test_a_home_that_may_not_be_written_to(place: Path) -> None:
    """No journal, no patch: what cannot be taken back by its hash does not go in."""
    (place / "home/.workbook/patches").mkdir(parents=True)
    for path in (place / "home/.workbook", place / "home/.workbook/patches"):
        path.chmod(0o555)
    answer = edit(place, b"x = 2\n")
    assert answer["error"]["code"] == "WB-PATCH-WRITE"
    assert (place / "checkout/f.py").read_text() == "x = 1\n"


def test_mode_and_a_link_stay(place: Path) -> None:
    file = place / "checkout/f.py"
    real = place / "checkout/real.py"
    file.rename(real)
    real.chmod(0o640)
    file.symlink_to("real.py")
    assert edit(place, b"x = 2\n") == {"done": True}
    assert file.is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("x = 2\n", 0o640)


@pytest.mark.parametrize("data", [b"def (:\n", b"x = '\n", b"\0"])
def test_what_does_not_compile(place: Path, data: bytes) -> None:
    assert edit(place, data)["error"]["code"] == "WB-PATCH-SYNTAX"
    assert (place / "checkout/f.py").read_text() == "x = 1\n"
    assert journal(place) == []
