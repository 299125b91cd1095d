"""A profile is judged by the source with its own patches in, whatever is in just now; what that source changes.

.venv/bin/python -m pytest tests/contract/test_preflight_patches.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from preflight_support import codes, copied, look

from helpers.paths import DATA
from helpers.serving import load_profiles
from helpers.source.patch_state import load_patch
from helpers.source.unified import place

FILE = "sglang/srt/models/deepseek_v2.py"
CASE, DUMP = "capture-embedding", "dump-hidden-states"


def patched(root: Path, *names: str) -> Path:
    """A copy of the source with patches put in, the first one lowest."""
    path = copied(root) / FILE
    for name in names:
        [file] = load_patch(name, "0.5.9").files
        placed = place(path.read_bytes(), file)
        assert placed.text is not None
        path.write_bytes(placed.text)
    return root


@pytest.mark.parametrize("now", [(), (CASE,), (DUMP,), (DUMP, CASE), (CASE, DUMP)])
def test_a_profile_is_judged_by_its_own_patches_whatever_is_in_just_now(tmp_path: Path, now: tuple[str, ...]) -> None:
    folders = {"target": DATA / "lab/target", "draft": DATA / "lab/drafter"}
    source = patched(tmp_path, *now)
    before = (source / FILE).read_bytes()
    for name, found in (("miswired", ["ids-overridden"]), ("right", [])):
        profile = load_profiles()[name]
        wanted = profile.patches
        report = look(profile, gpu=None, source=source, **folders)
        told = [one for one in report.findings if one.code == "source-differs-now"]
        assert [code for code in codes(report) if code != "source-differs-now"] == found
        assert report.served.patches == wanted
        assert set(report.served.extra) == set(now) - set(wanted)
        assert set(report.served.absent) == set(wanted) - set(now)
        assert report.served.edited == ()
        assert bool(told) == (set(now) != set(wanted))
        assert all(one.severity == "info" for one in told)
        said = str(report)
        assert (f"the stock source with {CASE} put in" in said) == bool(wanted)
        assert all(f"workbook patch BOX apply {one}" in said for one in report.served.absent)
    assert (source / FILE).read_bytes() == before, "what is judged is a copy"


def test_without_its_patch_the_cases_id_never_fires(tmp_path: Path) -> None:
    """Also where somebody else has the patch in just now: the profile does not name it."""
    folders = {"target": DATA / "lab/target", "draft": DATA / "lab/drafter"}
    profile = load_profiles()["miswired"].model_copy(update={"patches": ()})
    report = look(profile, gpu=None, source=patched(tmp_path, CASE), **folders)
    assert "ids-never-fire" in codes(report)
    assert f"judged without {CASE}, which the profile does not name" in str(report)


def test_a_patch_that_does_not_go_in_is_a_finding_with_its_hunk(tmp_path: Path) -> None:
    folders = {"target": DATA / "lab/target", "draft": DATA / "lab/drafter"}
    source = copied(tmp_path)
    text = (
        (source / FILE).read_text().replace("        aux_hidden_states = []\n", "        aux_hidden_states = list()\n")
    )
    (source / FILE).write_text(text)
    report = look(load_profiles()["miswired"], gpu=None, source=source, **folders)
    [conflict] = [one for one in report.findings if one.code == "patch-does-not-apply"]
    assert conflict.severity == "error"
    assert "the hunk @@ -2710" in conflict.summary
    assert any("capture_embedding_for_eagle3" in line for line in conflict.evidence["hunk"])
    assert "    | " in str(report)
    assert report.served.edited == (FILE,)
    profile = load_profiles()["right"].model_copy(update={"patches": ("no-such-patch",)})
    report = look(profile, gpu=None, source=source, **folders)
    [conflict] = [one for one in report.findings if one.code == "patch-does-not-apply"]
    assert "there is no patch 'no-such-patch' for sglang 0.5.9" in conflict.summary
