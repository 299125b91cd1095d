"""Patches over both SSH servers, on the wheel's own file in a checkout on the box.

.venv/bin/python -m pytest tests/contract/test_patches.py
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import stat
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import ssh_servers

from helpers.box import Box
from helpers.cli import main
from helpers.errors import RemoteFailed, UsageError
from helpers.serving import Profile, checkout_of
from helpers.serving import plan as launch_plan
from helpers.source import find_checkout, patches
from helpers.source.patch_state import load_patch, patch_names
from helpers.uploads import call

NAME = "capture-embedding"
FILE = "sglang/srt/models/deepseek_v2.py"
WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
STOCK = "4071b9a6a6ac71e1143204708df42f2ba5bd163a5d7a020579242df56e490a35"


@pytest.fixture
def root(there: Path) -> Path:
    """A checkout on the box: the wheel's package, as far as finding and patching it reads it."""
    root = there / "python"
    for name in ("sglang/__init__.py", "sglang/_version.py", FILE):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WHEEL / name, root / name)
    (root / FILE).chmod(0o640)
    return root


@pytest.fixture
def how(root: Path) -> dict[str, Any]:
    return {"python": sys.executable, "env": {"PYTHONPATH": str(root)}}


def digest(root: Path) -> str:
    return hashlib.sha256((root / FILE).read_bytes()).hexdigest()


def journal(server: ssh_servers.SshServer, root: Path) -> list[dict[str, Any]]:
    lines = (server.home / ".workbook/patches/journal.jsonl").read_text().splitlines()
    return [entry for line in lines if (entry := json.loads(line))["root"] == str(root)]


def test_what_is_in_can_be_asked_without_a_name(box: Box, root: Path, how: dict[str, Any]) -> None:
    patches.apply(box, NAME, **how)
    found = {report.name: report.state for report in patches.statuses(box, **how)}
    assert set(found) == set(patch_names("0.5.9"))
    assert found[NAME] == "applied"
    assert patches.revert(box, NAME, **how).changed


def test_the_checkout_is_the_one_that_the_interpreter_imports(box: Box, root: Path, how: dict[str, Any]) -> None:
    checkout = find_checkout(box, **how)
    assert (checkout.root, checkout.version) == (str(root), "0.5.9")
    assert checkout.python == sys.executable


def test_an_interpreter_of_the_home_is_found_by_its_tilde(box: Box, there: Path, how: dict[str, Any]) -> None:
    """As a profile may write it: `serve` took it, and what asks for the checkout alone did not."""
    (there / "python3").symlink_to(sys.executable)
    tilde = f"~/{there.name}/python3"
    checkout = find_checkout(box, tilde, how["env"])
    assert checkout.version == "0.5.9"
    assert patches.status(box, NAME, python=tilde, env=how["env"]).state == "clean"
    profile = Profile(name="p", engine="sglang==0.5.9", model="/m", python=tilde, env=how["env"])
    assert checkout_of(box, profile) == checkout


def test_an_interpreter_without_sglang_and_none_at_all(box: Box, there: Path) -> None:
    (there / "sglang").mkdir()  # a folder of that name is no package
    with pytest.raises(RemoteFailed) as caught:
        find_checkout(box, "/usr/bin/python3", {"PYTHONPATH": str(there)})
    assert caught.value.code == "WB-SOURCE-NO-SGLANG"
    with pytest.raises(RemoteFailed) as caught:
        find_checkout(box, "/no/such/python")
    assert caught.value.code == "WB-SOURCE-NO-PYTHON"


def test_planned_applied_twice_reverted_byte_for_byte(
    box: Box, ssh_server: ssh_servers.SshServer, root: Path, how: dict[str, Any]
) -> None:
    original = (root / FILE).read_bytes()
    plan = patches.plan(box, NAME, **how)
    assert (plan.state, plan.changed, plan.stock, plan.files[0].before) == ("clean", False, True, STOCK)
    assert digest(root) == STOCK
    applied = patches.apply(box, NAME, **how)
    assert (applied.state, applied.changed) == ("applied", True)
    assert digest(root) == applied.files[0].after == plan.files[0].after
    assert stat.S_IMODE((root / FILE).stat().st_mode) == 0o640
    modified = (root / FILE).stat().st_mtime_ns
    again = patches.apply(box, NAME, **how)
    assert (again.state, again.changed) == ("applied", False)
    assert (root / FILE).stat().st_mtime_ns == modified
    status = patches.status(box, NAME, **how)
    assert (status.state, status.files[0].lines) == ("applied", (2629, 2711, 2973))
    assert status.since is not None
    reverted = patches.revert(box, NAME, **how)
    assert (reverted.state, reverted.changed, reverted.proven) == ("clean", True, True)
    assert (root / FILE).read_bytes() == original
    assert patches.revert(box, NAME, **how).changed is False
    entries = journal(ssh_server, root)
    assert [entry["action"] for entry in entries] == ["apply", "revert"]
    assert {(e["files"][0]["before"], e["files"][0]["after"]) for e in entries} == {(STOCK, plan.files[0].after)}
    assert not [path for path in (root / FILE).parent.iterdir() if path.name.startswith(".")]


def test_local_edits_elsewhere_stay(box: Box, root: Path, how: dict[str, Any]) -> None:
    edited = b"# ours\n# ours\n" + (root / FILE).read_bytes()
    (root / FILE).write_bytes(edited)
    applied = patches.apply(box, NAME, **how)
    assert (applied.state, applied.stock) == ("applied", False)
    assert patches.revert(box, NAME, **how).proven is True
    assert (root / FILE).read_bytes() == edited


def test_a_conflict_shows_its_hunk_and_writes_nothing(box: Box, root: Path, how: dict[str, Any]) -> None:
    text = (root / FILE).read_text().replace("        aux_hidden_states = []\n", "        aux_hidden_states = list()\n")
    (root / FILE).write_text(text)
    assert patches.plan(box, NAME, **how).state == "conflict"
    with pytest.raises(RemoteFailed, match="@@ -2710") as caught:
        patches.apply(box, NAME, **how)
    assert caught.value.code == "WB-PATCH-CONFLICT"
    assert any("capture_embedding_for_eagle3" in line for line in caught.value.lines)
    assert (root / FILE).read_text() == text


def test_two_places_are_ambiguous(box: Box, root: Path, how: dict[str, Any]) -> None:
    text = (root / FILE).read_text()
    (root / FILE).write_text("# moved\n" + text + text)
    with pytest.raises(RemoteFailed, match="fits at lines 2630, 5616") as caught:
        patches.apply(box, NAME, **how)
    assert caught.value.code == "WB-PATCH-AMBIGUOUS"


def test_a_file_that_drifted_is_reverted_only_by_force(box: Box, root: Path, how: dict[str, Any]) -> None:
    patches.apply(box, NAME, **how)
    (root / FILE).write_bytes((root / FILE).read_bytes() + b"# added by hand\n")
    assert patches.status(box, NAME, **how).state == "drifted"
    for work in (patches.apply, patches.revert):
        with pytest.raises(RemoteFailed, match="changed after the patch went in") as caught:
            work(box, NAME, **how)
        assert caught.value.code == "WB-PATCH-DRIFTED"
    report = patches.revert(box, NAME, force=True, **how)
    assert (report.state, report.proven) == ("clean", False)
    assert (root / FILE).read_bytes() == (WHEEL / FILE).read_bytes() + b"# added by hand\n"


def test_a_patch_that_another_hand_applied(box: Box, root: Path, how: dict[str, Any]) -> None:
    """No journal tells what was there; the patch's own header knows the engine's file."""
    patches.apply(box, NAME, **how)
    by_hand = (root / FILE).read_bytes()
    patches.revert(box, NAME, **how)
    (root / FILE).write_bytes(by_hand)
    status = patches.status(box, NAME, **how)
    assert (status.state, status.since, status.stock) == ("applied", None, True)
    assert patches.revert(box, NAME, **how).proven is True
    assert digest(root) == STOCK


def test_what_somebody_changed_meanwhile_is_not_overwritten(box: Box, root: Path, how: dict[str, Any]) -> None:
    files = [{"path": str(root / FILE), "expect": "0" * 64, "data": ""}]
    answer = call(box, "editing", "write", {"files": files, "entry": {}}, python=sys.executable)
    assert answer["error"]["code"] == "WB-PATCH-RACE"
    assert digest(root) == STOCK


def test_all_files_of_a_patch_or_none(box: Box, root: Path) -> None:
    """The second of two files cannot be replaced: its new name would be too long."""
    first, long = root / FILE, root / ("n" * 250)
    long.write_bytes(b"x")
    files = [
        {"path": str(first), "expect": STOCK, "data": "bmV3"},
        {"path": str(long), "expect": hashlib.sha256(b"x").hexdigest(), "data": "bmV3"},
    ]
    answer = call(box, "editing", "write", {"files": files, "entry": {}}, python=sys.executable)
    assert answer["error"]["code"] == "WB-PATCH-WRITE"
    assert digest(root) == STOCK
    assert long.read_bytes() == b"x"


def test_an_unknown_name_and_another_engine(box: Box, root: Path, how: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="capture-embedding"):
        patches.status(box, "nosuch", **how)
    version = root / "sglang/_version.py"
    version.write_text(version.read_text().replace("'0.5.9'", "'0.5.23'"))
    with pytest.raises(UsageError, match=r"sglang 0\.5\.23"):
        patches.status(box, NAME, **how)


def test_the_patch_that_went_in_comes_out_also_after_it_changed_here(
    box: Box, root: Path, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = load_patch(NAME, "0.5.9").text.replace("hidden_states.clone()", "hidden_states + 0")
    folder = tmp_path / "sglang-0.5.9"
    folder.mkdir()
    (folder / f"{NAME}.patch").write_text(older)
    with monkeypatch.context() as patched:
        patched.setattr("helpers.source.patch_state.PATCHES", tmp_path)
        patches.apply(box, NAME, **how)
    assert patches.status(box, NAME, **how).state == "applied"
    with pytest.raises(RemoteFailed, match="older version"):
        patches.apply(box, NAME, **how)
    assert patches.revert(box, NAME, **how).proven is True
    assert digest(root) == STOCK


@pytest.mark.parametrize("version", ["0.5.9", "0.5.10.dev3+g1a2b3c"])
def test_what_a_refused_start_says_puts_the_patch_into_its_own_checkout(
    box: Box, root: Path, how: dict[str, Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must-show: the command of the message, pasted into a shell; the box's python3 imports another SGLang, or none."""
    said = (root / "sglang/_version.py").read_text().replace("'0.5.9'", repr(version))
    (root / "sglang/_version.py").write_text(said)
    told = Profile(name="x", engine=f"sglang=={version}", engine_base="0.5.9", model="/m", patches=(NAME,), **how, tp=8)
    with pytest.raises(RemoteFailed, match="WB-SERVE-PATCH-MISSING") as caught:
        launch_plan(box, told)
    words = shlex.split(caught.value.next)
    assert words[:2] == ["workbook", "patch"]
    assert words[2] == box.name
    monkeypatch.setattr("helpers.box.connect", lambda name: contextlib.nullcontext(box))
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert not ended.value.code
    assert patches.status(box, NAME, **how).state == "applied"
    assert patches.take_back(box, NAME, **how) is None
