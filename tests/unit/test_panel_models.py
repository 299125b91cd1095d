"""What the server and patches panels say, on records as the box gives them; nothing is started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from helpers.box.facts.answer import Absent
from helpers.box.facts.gpus import Gpu, Gpus
from helpers.box.facts.memory import Memory
from helpers.panels import markup
from helpers.panels.patches_model import PatchesModel
from helpers.panels.server import stage_bar
from helpers.panels.server_model import ServerModel, gpu_rows, memory_words, run_labels
from helpers.panels.static import Static, Table
from helpers.serving import load_profiles
from helpers.source.patch_report import OldServer, PatchedFile, PatchReport

BOX: Any = SimpleNamespace(name="lab", user="ann", host="10.0.0.1")  # a name to show; nothing is asked of it


def server() -> ServerModel:
    return ServerModel(BOX, load_profiles())


def test_gpus_are_rows_and_a_fault_is_said_in_words() -> None:
    good = Gpu(index=0, name="H100", memory_total=81559, memory_used=40780, utilization=7)
    bad = Gpu(index=1, name="H100", faults=("memory.used: ERR!",), uncorrected=3)
    rows = gpu_rows(Gpus(gpus=(good, bad)))
    assert rows[0]["memory used"] == "39.8 GiB of 79.6 GiB (50%)"
    assert rows[0]["faults"] == "none"
    assert rows[1]["memory used"] == "? of ?"
    assert rows[1]["faults"] == "memory.used: ERR!; 3 ECC errors"
    assert gpu_rows(Absent(absent="no nvidia-smi on the box")) == []


def test_memory_is_a_sentence() -> None:
    assert memory_words(Memory(total=24000, available=12000, limit=8192)).endswith("limited to 8.0 GiB")
    assert memory_words(Absent(absent="no /proc")) == "memory: no /proc"


def test_the_chosen_profile_says_what_it_needs() -> None:
    model = server()
    model.chosen = "miswired"
    assert "layer ids -1, 1, 4" in model.profile_words()
    assert "needs capture-embedding" in model.profile_words()
    assert "no capture hook" in model.profile_words()
    model.capture = True
    assert model.profile.capture is True
    assert "profiles['miswired'].model_copy(update={\"capture\": True})" in model.call()


def test_stages_are_told_in_words_and_never_by_the_bar_alone() -> None:
    model = server()
    model.stage, model.stage_detail = "memory pool", "40%"
    assert [state for _, state in model.stages()] == ["passed", "passed", "now 40%", "to come", "to come"]
    assert "✓ weights (passed) → ▸ memory pool (now 40%) → · graph capture (to come)" in stage_bar(model)
    model.stage, model.stage_detail = "ready", ""
    assert [state for _, state in model.stages()] == ["passed"] * 4 + ["answers"]


def test_before_the_first_look_the_twin_says_so() -> None:
    assert "not looked at yet" in server().static().text
    assert "not looked at yet" in PatchesModel(BOX).static().text
    assert run_labels([]) == [("none yet", "")]


def test_a_panel_without_profiles_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one profile"):
        ServerModel(BOX, {})


def report(**changes: Any) -> PatchReport:
    file = PatchedFile(
        path="a.py", state="clean", sha256="1" * 64, before="1" * 64, after="2" * 64, lines=(3, 9), problem="", hunk=()
    )
    told = {
        "name": "fix",
        "action": "plan",
        "state": "clean",
        "checkout": "/x",
        "version": "0.5.9",
        "patch_sha256": "3" * 64,
        "files": (file,),
        "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-old <b>\n+new",
    }
    return PatchReport(**{**told, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Plan of fix: it can go in. Nothing was written. It would change a.py at lines 3, 9."),
        ({"state": "applied"}, "Plan of fix: it is in already. Nothing was written. It stands in a.py at lines 3, 9."),
        ({"state": "applied", "since": "T by ann"}, "it is in already, since T by ann. Nothing"),
        ({"state": "conflict"}, "Plan of fix: cannot go in: the file lacks its lines. Nothing was written."),
        ({"action": "apply", "state": "applied", "changed": True}, "fix is in now."),
        ({"action": "apply", "state": "applied"}, "fix: nothing had to be changed; it is in already."),
        ({"action": "revert"}, "fix: nothing had to be changed; it is not in."),
        ({"action": "status"}, "fix: not in, can go in. It would change a.py"),
        ({"action": "revert", "changed": True, "proven": True}, "the bytes are those from before it"),
        ({"action": "revert", "changed": True, "proven": False}, "not the bytes from before it"),
    ],
)
def test_what_was_planned_or_done_is_a_sentence(changes: dict[str, Any], words: str) -> None:
    model = PatchesModel(BOX)
    model.chosen = "fix"
    model.took(report(**changes))
    assert words in model.outcome()
    assert ("would change" in model.outcome()) == (words.count("would change") > 0)


def test_servers_with_the_old_text_are_named() -> None:
    model = PatchesModel(BOX, python="/opt/python")
    model.chosen = "fix"
    old = (OldServer(pid=7, run="right-1", command="x"), OldServer(pid=8, run=None, command="y"))
    model.took(report(action="apply", state="applied", changed=True, servers=old))
    assert "to be restarted: run right-1, pid 8" in model.outcome()
    assert model.rows()[0]["servers with the old text"] == "run right-1, pid 8"
    assert "python='/opt/python'" in model.call()
    there = PatchesModel(BOX, env={"PYTHONPATH": "/opt/sglang/python", "API_KEY": "sesame"})
    assert "env={'PYTHONPATH': '/opt/sglang/python', 'API_KEY': '***'}" in there.call(), "which checkout, and no secret"


def test_the_call_says_force_only_while_it_is_asked_for() -> None:
    model = PatchesModel(BOX)
    model.chosen = "fix"
    assert "force" not in model.call()
    model.force = True
    assert model.call().splitlines()[2:] == [
        "patches.apply(box, 'fix', force=True)",
        "patches.revert(box, 'fix', force=True)",
    ]
    assert "plan(box, 'fix')" in model.call()


def test_a_diff_has_its_signs_beside_its_colours_and_is_escaped() -> None:
    html = markup.diff(report().diff.split("\n"), label="the patch <x>")
    assert "-old &lt;b&gt;" in html
    assert html.count("background:rgba") == 2
    assert 'aria-label="the patch &lt;x&gt;"' in html
    assert 'tabindex="0"' in html


def test_hostile_text_stays_text() -> None:
    rows = [{"<i>": "<script>alert(1)</script>\nsecond"}]
    static = Static("<b>", ["<u>"], [Table("<s>", rows)], [("<q>", "<em>")])
    assert not [tag for tag in ("<script", "<i>", "<b>", "<u>", "<s>", "<q>", "<em>") if tag in static.html]
    assert "<br>second" in static.html
    assert "<script>alert(1)</script>" in static.text


def test_an_empty_table_says_none() -> None:
    assert "Findings: none" in Static("x", tables=[Table("Findings", [])]).html
    assert Table("Findings", []).text == "Findings: none"
