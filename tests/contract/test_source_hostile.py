"""Names, files and folders that nobody should give: one coded error each, and nothing changed.

.venv/bin/python -m pytest tests/contract/test_source_hostile.py
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from helpers import source
from helpers.box import Box
from helpers.errors import RemoteFailed, UsageError, WorkbookError
from helpers.source import Checkout, draft_ids, patches

WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
LONG_NAME = "x" * 249 + ".py"
HOSTILE = [
    "-rf",
    "--help",
    "it's",
    'say "so"',
    "$(touch pwned)",
    "`touch pwned`",
    "new\nline",
    "a;touch pwned",
    "ünïcödé",
    "\udcff\udcfe",
    "x" * 300,
    "nul\0byte",
    "~nobody-of-that-name",
]


@pytest.fixture
def root(there: Path) -> Path:
    """A small checkout on the box: the package, a file of two lines, and one whose name leaves no room beside it."""
    root = there / "python"
    (root / "sglang").mkdir(parents=True)
    for name in ("sglang/__init__.py", "sglang/_version.py"):
        shutil.copy(WHEEL / name, root / name)
    for name in ("f.py", LONG_NAME):
        (root / "sglang" / name).write_text("one = 1\ntwo = 2\n")
    return root


@pytest.fixture
def how(root: Path) -> dict[str, Any]:
    return {"python": sys.executable, "env": {"PYTHONPATH": str(root)}}


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What a folder holds, and when it was last changed."""
    files = (p for p in folder.rglob("*") if "__pycache__" not in p.parts)
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size, os.fsencode(p)) for p in files}


def refusal(work: Callable[[], object]) -> WorkbookError:
    """The one error of a call: coded, with a page, and told what to do next."""
    with pytest.raises(WorkbookError) as caught:
        work()
    assert caught.value.code.startswith("WB-")
    assert caught.value.next
    return caught.value


def own(path: Path, file: str, before: str = "two = 2", after: str = "two = 3") -> str:
    path.write_text(f"--- a/{file}\n+++ b/{file}\n@@ -1,2 +1,2 @@\n one = 1\n-{before}\n+{after}\n")
    return str(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_nothing(box: Box, root: Path, how: dict[str, Any], there: Path, name: str) -> None:
    before = state(there)
    checkout = Checkout(str(root / "sglang"), "0.5.9", sys.executable, "3.11")
    for read in (
        lambda: source.grep(box, "x", name, checkout=checkout),
        lambda: source.show(box, name, "1:2", checkout=checkout),
    ):
        assert refusal(read).code in ("WB-FILE-MISSING", "WB-FILE-READ")
    for change, kind in ((patches.plan, f"./{name}"), (patches.apply, name), (patches.revert, f"{name}.patch")):
        error = refusal(lambda change=change, kind=kind: change(box, kind, **how))  # type: ignore[misc]
        assert (type(error), error.code) == (UsageError, "WB-PATCH-UNKNOWN")
    error = refusal(lambda: draft_ids.set_ids(box, f"{there}/{name}", [1, 2], python=sys.executable))
    assert error.code == "WB-FILE-MISSING"
    assert state(there) == before
    assert not Path("pwned").exists()


@pytest.mark.parametrize("kind", ["folder", "pipe", "binary", "endless"])
def test_what_is_no_patch(box: Box, root: Path, how: dict[str, Any], tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it.patch"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 8)
    else:
        path = Path("/dev/zero")
    before = state(root)
    error = refusal(lambda: patches.apply(box, str(path), **how))
    assert error.code == ("WB-PATCH-UNREADABLE" if kind == "binary" else "WB-PATCH-UNKNOWN")
    assert state(root) == before


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "binary", "no text"])
def test_a_patch_on_what_is_no_file_of_python(
    box: Box, root: Path, how: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    file = root / "sglang" / "g.py"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "binary":
        file.write_bytes(b"one = 1\ntwo = 2\n\0\xff\n")
    elif kind == "no text":
        file.write_bytes(b"\xff\xfe" * 50)
    before = state(root)
    error = refusal(lambda: patches.apply(box, own(tmp_path / "g.patch", "sglang/g.py"), **how))
    assert error.code == ("WB-PATCH-SYNTAX" if kind == "binary" else "WB-PATCH-CONFLICT")
    assert state(root) == before


def test_a_folder_that_takes_no_new_file(box: Box, root: Path, how: dict[str, Any], tmp_path: Path) -> None:
    """Also for root: the new text needs a name beside the old one, and there is none that long."""
    mine = own(tmp_path / "long.patch", f"sglang/{LONG_NAME}")
    assert patches.plan(box, mine, **how).state == "clean"
    before = state(root)
    error = refusal(lambda: patches.apply(box, mine, **how))
    assert (type(error), error.code) == (RemoteFailed, "WB-PATCH-WRITE")
    assert "nothing was changed" in error.message
    assert state(root) == before
    assert patches.status(box, mine, **how).state == "clean"


def test_a_file_that_fails_while_it_is_read(box: Box, root: Path) -> None:
    """A regular file that only gives an error (as on a failing disk)."""
    checkout = Checkout(str(root / "sglang"), "0.5.9", sys.executable, "3.11")
    assert refusal(lambda: source.grep(box, "x", "/proc/self/mem", checkout=checkout)).code == "WB-FILE-READ"
    assert refusal(lambda: source.show(box, "/proc/self/mem", "1", checkout=checkout)).code == "WB-FILE-READ"


@pytest.mark.parametrize("kind", ["folder", "pipe", "binary"])
def test_ids_of_a_config_that_is_none(box: Box, there: Path, kind: str) -> None:
    folder = there / "drafter"
    folder.mkdir()
    config = folder / "config.json"
    if kind == "folder":
        config.mkdir()
    elif kind == "pipe":
        os.mkfifo(config)
    else:
        config.write_bytes(b"\0\xff" + json.dumps({"a": 1}).encode())
    before = state(there)
    error = refusal(lambda: draft_ids.set_ids(box, str(folder), [1, 2], python=sys.executable))
    assert error.code == ("WB-PATCH-CONFIG" if kind == "binary" else "WB-FILE-MISSING")
    assert state(there) == before
