"""Notebooks 10 to 90: one investigation, each notebook from top to bottom against the lab, and all of it twice."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from helpers.box import connect
from helpers.export import export_notebook
from helpers.headless import run_notebook
from helpers.ledger import Ledger, read_ledger
from helpers.ledger.check import verify
from helpers.paths import ROOT
from helpers.serving import find_runs, load_profiles
from helpers.source import patches
from helpers.tensors.capture import read_capture

NAMES = sorted(path.name for path in (ROOT / "notebooks").glob("[1-9]*.ipynb"))
REFUTED = ("tp-shard", "a2a-gather", "order", "token-shift", "form", "scaled")
CONFIRMED = ("symptom", "ids", "fix")


@pytest.fixture(scope="module")
def folder(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where investigations go; kernels inherit it, and the lab of the session."""
    root = tmp_path_factory.mktemp("case")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_INVESTIGATIONS", str(root))
        yield root


def run(name: str, folder: Path) -> nbformat.NotebookNode:
    saved = folder / "executed" / name
    run_notebook(ROOT / "notebooks" / name, saved)
    return nbformat.read(saved, as_version=4)


@pytest.fixture(scope="module")
def case(folder: Path) -> Ledger:
    """The whole investigation, in order."""
    for name in NAMES:
        run(name, folder)
    return read_ledger("case")


def shown(notebook: nbformat.NotebookNode) -> str:
    """All text that the cells of a notebook show."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs)


def htmls(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells of a notebook leave for a browser."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [out["data"]["text/html"] for out in outputs if "text/html" in out.get("data", {})]


def raw(notebook: nbformat.NotebookNode) -> list[str]:
    """Results shown as Python writes them: a record with its fields, a list, a dictionary, a quoted text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    bundles = [out["data"] for out in outputs if out.output_type in ("execute_result", "display_data")]
    shown = [data["text/plain"] for data in bundles if set(data) == {"text/plain"}]
    return [text for text in shown if re.match(r"[\w.]+\(|<[\w.]+[ >]|[\[{('\"]", text)]


def test_the_source_is_read_without_any_other_notebook(folder: Path) -> None:
    """It starts nothing, so it is quick; the others run below."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_INVESTIGATIONS", str(folder / "alone"))
        ran = run("20_source_and_patch.ipynb", folder / "alone")
        told = shown(ran)
        alone = read_ledger("case")
    assert re.search(r"^2642 .*embed_tokens", told, re.M), "a golden line of the patched file"
    assert "Plan of capture-embedding: it can go in. Nothing was written. It would change sglang/srt/models/" in told
    assert "capture-embedding was taken out: the bytes are those from before it." in told
    assert "begins as reported: True" in told
    assert "a2a (holds: no): off for this launch (moe_a2a_backend none)" in told
    assert "graphs (holds: no): off for this launch (no CUDA graphs" in told
    assert raw(ran) == []
    page = export_notebook(folder / "alone/executed/20_source_and_patch.ipynb").path.read_text()
    assert "not looked at yet" not in page, "the panel's twin is of the end of its first look"
    (twin,) = [text for text in htmls(ran) if "Patches on lab" in text]
    assert re.search(r"capture-embedding.*not in, can go in", twin, re.S)
    # The threshold asks what ranks hold: the source alone is evidence, and no verdict.
    gather = alone.get("a2a-gather")
    assert alone.state.standing(gather.id) == "open"
    assert [e.bearing for e in alone.evidence_on(gather)] == ["contradicts"]
    (lines,) = [e for e in alone.evidence_on("ids") if e.source == "source"]
    assert lines.patches == ("capture-embedding",), "these lines were read while the patch was in"


def test_the_source_is_read_with_the_patch_in_already(folder: Path) -> None:
    """Somebody's patch stays in, and is said to stand where it stands: nothing "would change"."""
    with connect("lab") as box, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_INVESTIGATIONS", str(folder / "patched"))
        patches.apply(box, "capture-embedding")
        try:
            told = shown(run("20_source_and_patch.ipynb", folder / "patched"))
            assert patches.status(box, "capture-embedding").state == "applied"
        finally:
            patches.revert(box, "capture-embedding")
    assert re.search(r"Plan of capture-embedding: it is in already, since .*It stands in sglang/\S+ at lines \d", told)
    assert "capture-embedding: nothing had to be changed; it is in already, since" in told
    assert not re.search(r"would change|: None\b", told)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_case_is_solved(case: Ledger) -> None:
    standing = {h.key: case.state.standing(h.id) for h in case.hypotheses}
    assert {key: standing[key] for key in REFUTED} == dict.fromkeys(REFUTED, "refuted")
    assert {key: standing[key] for key in CONFIRMED} == dict.fromkeys(CONFIRMED, "confirmed")
    for hypothesis in case.hypotheses:
        verdict = case.verdict_on(hypothesis)
        assert verdict is not None
        assert verdict.because, f"{hypothesis.key} was decided without evidence"
    assert verify(case.folder).good


@pytest.mark.full
def test_the_replay_gives_the_counts_of_the_server_itself(case: Ledger) -> None:
    (held,) = [e for e in case.evidence_on("ids") if "the server's own counters" in e.title]
    assert (held.values["equal"], held.n) == (8, 8)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_no_result_is_shown_as_python_writes_it(case: Ledger, folder: Path, name: str) -> None:
    assert raw(nbformat.read(folder / "executed" / name, as_version=4)) == []


@pytest.mark.full
def test_the_commands_of_the_report_run_elsewhere(case: Ledger) -> None:
    commands = json.loads((case.folder / "report.json").read_text())["commands"]
    lines = [line for line in commands if line.startswith("workbook")]
    assert not [line for line in lines if any(sign in line for sign in ("~", "<", " /"))]
    assert not [line for line in commands if "is not recorded" in line], "all else says what it follows from"
    bench = next(line for line in lines if " bench " in line and " mended " in line)
    assert '--profiles "$WORKBOOK_INVESTIGATIONS/case/bench/profiles.toml"' in bench
    assert [word for line in lines for word in ("capture", "diagnose", "replay") if f"workbook {word} " in line]
    assert set(load_profiles(case.folder / "bench" / "profiles.toml")) == {"baseline", "miswired", "mended"}
    for capture in (case.folder / "captures").iterdir():
        assert load_profiles(capture / "profiles.toml")["miswired"].capture is True


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_commands_of_the_report_give_the_same_again(case: Ledger, folder: Path) -> None:
    """In a shell, as a colleague would: exit 1 is "something was found wrong", which is the case here."""
    report = json.loads((case.folder / "report.json").read_text())
    place = f"export WORKBOOK_INVESTIGATIONS={folder}"
    lines = [place if line.startswith("export WORKBOOK_INV") else line for line in report["commands"]]
    guard = 'workbook() { command workbook "$@" || [ $? -eq 1 ] || { echo "FAILED: $*"; exit 9; }; }'
    done = subprocess.run(
        ["bash", "-c", "\n".join([guard, *lines])], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    again = [read_capture(path) for path in (case.folder / "captures-again").iterdir()]
    known = [read_capture(path) for path in (case.folder / "captures").iterdir()]
    for one in known:
        (same,) = [other for other in again if len(other.info.requests) == len(one.info.requests)]
        assert [file.sha256 for file in same.info.files] == [file.sha256 for file in one.info.files]
    (rate,) = {e.values["accept_rate"] for e in case.evidence_on("fix") if e.title == "the mended server"}
    assert f"{rate:.3f} [" in done.stdout, "the acceptance of the mended server, measured again"


@pytest.mark.full
def test_nothing_is_left_running_and_the_source_is_as_it_was(case: Ledger, lab_home: Path) -> None:
    with connect("lab") as box:
        assert find_runs(box, alive=True) == []
    source = lab_home / "home/sglang/python/sglang/srt/models/deepseek_v2.py"
    assert "capture_embedding_for_eagle3" not in source.read_text()


@pytest.mark.full
def test_the_report_names_cause_and_fix_and_keeps_what_was_refuted(case: Ledger, lab_home: Path) -> None:
    report = json.loads((case.folder / "report.json").read_text())
    page = (case.folder / "report.html").read_text()
    summary = " ".join(report["summary"])
    assert "[1, 4, 8]" in summary
    assert "boundary 0" in summary
    assert sum(h["standing"] == "refuted" for h in report["hypotheses"]) >= len(REFUTED)
    assert str(lab_home) not in page
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=.https?:", page)
    assert (case.folder / "report.md").read_text().startswith("# ")


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_of_it_once_more(case: Ledger, folder: Path) -> None:
    before = {h.key: case.state.standing(h.id) for h in case.hypotheses}
    for name in NAMES:
        run(name, folder)
    again = read_ledger("case")
    assert {h.key: again.state.standing(h.id) for h in again.hypotheses} == before
    assert len(list((case.folder / "captures").iterdir())) == 2, "captures that are there are used again"
    assert verify(again.folder).good
