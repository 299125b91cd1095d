"""Several patches on one file, files of one's own, what would not compile, a power cut, and a drafter's ids.

.venv/bin/python -m pytest tests/contract/test_patch_stack.py
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import ssh_servers

from helpers.box import Box
from helpers.errors import RemoteFailed, UsageError
from helpers.paths import ROOT
from helpers.source import draft_ids, patches

FILE = "sglang/srt/models/deepseek_v2.py"
KIMI = "sglang/srt/models/kimi_k25.py"
WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
LOWER, UPPER = "capture-embedding", "dump-hidden-states"


@pytest.fixture
def root(there: Path) -> Path:
    """A checkout on the box: the wheel's package, as far as patches read it."""
    root = there / "python"
    for name in ("sglang/__init__.py", "sglang/_version.py", FILE, KIMI):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WHEEL / name, root / name)
    return root


@pytest.fixture
def how(root: Path) -> dict[str, Any]:
    return {"python": sys.executable, "env": {"PYTHONPATH": str(root)}}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def own_patch(path: Path, before: str, after: str, file: str = FILE) -> str:
    """A diff of one's own, from one word of the wheel's file to another."""
    import difflib

    old = (WHEEL / file).read_text()
    assert old.count(before) >= 1
    new = old.replace(before, after, 1)
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/python/{file}", f"b/python/{file}")
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.parametrize(("first", "second"), [(LOWER, UPPER), (UPPER, LOWER)])
def test_two_patches_on_one_file_go_in_and_come_out_in_order(
    box: Box, root: Path, how: dict[str, Any], first: str, second: str
) -> None:
    stock = (root / FILE).read_bytes()
    one = patches.apply(box, first, **how)
    between = (root / FILE).read_bytes()
    two = patches.apply(box, second, **how)
    both = (root / FILE).read_bytes()
    assert two.files[0].before == one.files[0].after
    lower = patches.status(box, first, **how)
    assert (lower.state, lower.files[0].above) == ("applied", (second,))
    assert patches.apply(box, first, **how).changed is False
    for force in (False, True):
        with pytest.raises(RemoteFailed, match=f"lies under {second}") as caught:
            patches.revert(box, first, force=force, **how)
        assert caught.value.code == "WB-PATCH-STACKED"
    assert (root / FILE).read_bytes() == both
    upper = patches.revert(box, second, **how)
    assert (upper.proven, (root / FILE).read_bytes()) == (True, between)
    assert patches.status(box, first, **how).files[0].above == ()
    assert patches.revert(box, first, **how).proven is True
    assert (root / FILE).read_bytes() == stock


def test_a_stack_that_somebody_edited_is_drifted(box: Box, root: Path, how: dict[str, Any]) -> None:
    patches.apply(box, LOWER, **how)
    patches.apply(box, UPPER, **how)
    (root / FILE).write_bytes((root / FILE).read_bytes() + b"# by hand\n")
    assert patches.status(box, LOWER, **how).state == "drifted"
    assert patches.status(box, UPPER, **how).state == "drifted"


def test_kimi_k25_goes_in_and_out(box: Box, root: Path, how: dict[str, Any]) -> None:
    applied = patches.apply(box, "kimi-k25-eagle3", **how)
    assert (applied.state, applied.stock) == ("applied", True)
    assert "def set_eagle3_layers_to_capture" in (root / KIMI).read_text()
    assert patches.revert(box, "kimi-k25-eagle3", **how).proven is True
    assert (root / KIMI).read_bytes() == (WHEEL / KIMI).read_bytes()


def test_a_file_of_ones_own_also_after_it_is_gone(box: Box, root: Path, how: dict[str, Any], tmp_path: Path) -> None:
    mine = own_patch(tmp_path / "no fusion's.patch", "hidden_states + residual", "residual + hidden_states")
    plan = patches.plan(box, mine, **how)
    assert (plan.state, plan.stock) == ("clean", None)
    assert plan.diff.startswith("--- a/python/sglang")
    applied = patches.apply(box, mine, **how)
    assert (applied.name, applied.state) == ("no fusion's", "applied")
    Path(mine).unlink()
    assert patches.status(box, mine, **how).state == "applied"
    assert patches.revert(box, "no fusion's", **how).proven is True
    assert digest(root / FILE) == digest(WHEEL / FILE)
    with pytest.raises(UsageError, match="cannot be read"):
        patches.apply(box, mine, **how)


def test_a_name_that_is_taken(box: Box, how: dict[str, Any], tmp_path: Path) -> None:
    mine = own_patch(tmp_path / f"{LOWER}.patch", "hidden_states + residual", "residual + hidden_states")
    with pytest.raises(UsageError, match="there is a patch of that name"):
        patches.apply(box, mine, **how)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "",
        "--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1,1 +1,2 @@\n root\n+me\n",
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,1 @@\n+x\n",
    ],
)
def test_a_file_that_is_no_patch(box: Box, root: Path, how: dict[str, Any], tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.patch").write_text(text)
    with pytest.raises(UsageError) as caught:
        patches.apply(box, str(tmp_path / "bad.patch"), **how)
    assert caught.value.code == "WB-PATCH-UNREADABLE"
    assert digest(root / FILE) == digest(WHEEL / FILE)


def test_what_would_not_compile_is_not_written(box: Box, root: Path, how: dict[str, Any], tmp_path: Path) -> None:
    mine = own_patch(tmp_path / "broken.patch", "aux_hidden_states = []", "aux_hidden_states = [")
    with pytest.raises(RemoteFailed, match="line 27") as caught:
        patches.apply(box, mine, **how)
    assert caught.value.code == "WB-PATCH-SYNTAX"
    assert digest(root / FILE) == digest(WHEEL / FILE)
    assert patches.status(box, mine, **how).since is None


def test_a_name_that_is_nothing(box: Box, root: Path, how: dict[str, Any]) -> None:
    for name in ("-rf", "a b", "$(touch x)", "/no/such.patch", "../x", "new\nline", ""):
        with pytest.raises(UsageError) as caught:
            patches.apply(box, name, **how)
        assert caught.value.code == "WB-PATCH-UNKNOWN"
    assert digest(root / FILE) == digest(WHEEL / FILE)


# A process that dies by kill -9 between the writing of the new file and its rename: what a power cut leaves.
CUT = """
import os, signal, sys
from remote import editing
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
editing.write(__import__("json").load(sys.stdin))
"""


def test_kill_9_before_the_rename_leaves_the_old_file_whole(
    box: Box, ssh_server: ssh_servers.SshServer, root: Path, how: dict[str, Any]
) -> None:
    plan = patches.plan(box, LOWER, **how)
    entry = {"action": "apply", "patch": LOWER, "root": str(root), "by": "x", "text": plan.diff, "files": []}
    entry["files"] = [{"path": FILE, "before": plan.files[0].before, "after": plan.files[0].after}]
    request = {
        "files": [{"path": str(root / FILE), "expect": plan.files[0].before, "data": "eCA9IDEK"}],
        "entry": entry,
    }
    env = {**os.environ, "HOME": str(ssh_server.home)}
    done = subprocess.run([sys.executable, "-c", CUT], input=json.dumps(request), text=True, cwd=ROOT, env=env)
    assert done.returncode == -signal.SIGKILL
    assert digest(root / FILE) == digest(WHEEL / FILE)
    assert [p.name for p in (root / FILE).parent.glob(".*.part")] != []  # it did get that far
    # The journal has the application already; the file decides that it is not in, and it goes in now.
    assert patches.status(box, LOWER, **how).state == "clean"
    assert patches.apply(box, LOWER, **how).state == "applied"
    assert [p.name for p in (root / FILE).parent.glob(".*.part")] == []
    assert patches.revert(box, LOWER, **how).proven is True
    assert digest(root / FILE) == digest(WHEEL / FILE)


def test_kill_9_between_the_rename_and_the_journal_of_a_revert(
    box: Box, ssh_server: ssh_servers.SshServer, root: Path, how: dict[str, Any]
) -> None:
    patches.apply(box, LOWER, **how)
    shutil.copy(WHEEL / FILE, root / FILE)  # reverted, and not said so in the journal
    assert patches.status(box, LOWER, **how).state == "clean"
    assert patches.apply(box, LOWER, **how).state == "applied"
    assert patches.revert(box, LOWER, **how).proven is True


# --- ids -------------------------------------------------------------------------------------------------------------

CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "näme": "ü",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
    "vocab_size": 163840,
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CONFIG, indent=2, ensure_ascii=False) + "\n",
        json.dumps(CONFIG, indent=4),
        json.dumps(CONFIG),
        json.dumps(CONFIG, separators=(",", ":")) + "\r\n",
        json.dumps({"a": 1}, indent=1),
        "{\n\n  'x' : 1}".replace("'", '"'),
    ],
)
def test_ids_written_twice_and_taken_back_byte_for_byte(box: Box, there: Path, text: str) -> None:
    draft = there / "my draft's"
    draft.mkdir()
    config = draft / "config.json"
    config.write_text(text, newline="")
    config.chmod(0o640)
    before = config.read_bytes()
    how: dict[str, Any] = {"python": sys.executable}
    for ids in ([-1, 2, 30], [3, 31, 59]):
        report = draft_ids.set_ids(box, str(draft), ids, **how)
        assert (report.changed, report.state) == (True, "applied")
        written = json.loads(config.read_bytes())
        assert written["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == ids
        rest = {**json.loads(text), "eagle_config": written["eagle_config"]}
        assert written == rest
    assert draft_ids.set_ids(box, str(draft), [3, 31, 59], **how).changed is False
    assert draft_ids.ids_status(box, str(draft), **how)[0] == [3, 31, 59]
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    reverted = draft_ids.revert_ids(box, str(draft), **how)
    assert reverted is not None
    assert (reverted.changed, reverted.proven) == (True, True)
    assert config.read_bytes() == before
    assert draft_ids.ids_status(box, str(draft), **how)[1] is None


def test_ids_of_a_config_that_somebody_changed_since(box: Box, there: Path) -> None:
    config = there / "config.json"
    config.write_text(json.dumps(CONFIG, indent=2))
    draft_ids.set_ids(box, str(there), [1, 2, 3], python=sys.executable)
    config.write_text(config.read_text().replace("163840", "163841"))
    edited = config.read_bytes()
    for work in (
        lambda: draft_ids.revert_ids(box, str(there), python=sys.executable),
        lambda: draft_ids.set_ids(box, str(there), [4], python=sys.executable),
    ):
        with pytest.raises(RemoteFailed) as caught:
            work()
        assert caught.value.code == "WB-PATCH-DRIFTED"
    assert config.read_bytes() == edited
    forced = draft_ids.revert_ids(box, str(there), python=sys.executable, force=True)
    assert forced is not None
    assert config.read_text() == json.dumps(CONFIG, indent=2).replace("163840", "163841")


@pytest.mark.parametrize("text", ["", "[1]", '{"a": ', "\0"])
def test_ids_of_what_is_no_config(box: Box, there: Path, text: str) -> None:
    (there / "config.json").write_text(text)
    with pytest.raises(RemoteFailed) as caught:
        draft_ids.set_ids(box, str(there), [1], python=sys.executable)
    assert caught.value.code == "WB-PATCH-CONFIG"
    assert (there / "config.json").read_text() == text
    with pytest.raises(RemoteFailed) as caught:
        draft_ids.set_ids(box, str(there / "not there"), [1], python=sys.executable)
    assert caught.value.code == "WB-FILE-MISSING"


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1 2", "-2", "1.5"])
def test_ids_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="no layer ids"):
        draft_ids.parse_ids(text)
