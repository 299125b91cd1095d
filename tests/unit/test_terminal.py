"""A line that a message suggests is found when it is pasted; the page that it names opens from any folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.errors import RemoteFailed, UsageError
from helpers.panels.worker import Token, Worker
from helpers.paths import ROOT, error_page
from helpers.terminal import as_called, in_terminal

COMMAND = ROOT / ".venv" / "bin" / "workbook"


@pytest.fixture
def not_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.mark.usefixtures("not_on_path")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("workbook stop lab r; add x; workbook serve lab p", "{0} stop lab r; add x; {0} serve lab p"),
        (".venv/bin/workbook lab up", "{0} lab up"),
        ("workbook --help", "{0} --help"),
        ("look into ~/.workbook/runs, /opt/workbook here", "look into ~/.workbook/runs, /opt/workbook here"),
        ("capture again with this version of the workbook", "capture again with this version of the workbook"),
        ("", ""),
    ],
)
def test_a_command_is_told_as_it_was_called(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    for called, typed in ((".venv/bin/workbook", ".venv/bin/workbook"), ("/a b/workbook", "'/a b/workbook'")):
        monkeypatch.setattr(sys, "argv", [called, "serve"])
        assert as_called(text) == told.format(typed)


def test_where_a_shell_finds_it_by_its_name_the_name_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "workbook").write_text("#!/bin/sh\n")
    (tmp_path / "workbook").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_called("workbook runs lab") == "workbook runs lab"


@pytest.mark.usefixtures("not_on_path")
def test_the_error_itself_stays_plain() -> None:
    error = RemoteFailed("WB-SERVE-DIED", "died", expected="a server", next="workbook logs lab r", lines=["last"])
    told = in_terminal(error)
    assert "  | last\n" in told
    assert "workbook logs lab r" in told
    assert error.next == "workbook logs lab r"
    assert error.to_json()["error"]["next"] == "workbook logs lab r"


def test_the_page_is_there_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert error_page("WB-USAGE") == "docs/errors/WB-USAGE.md"
    (tmp_path / "docs" / "errors").mkdir(parents=True)
    (tmp_path / "docs" / "errors" / "WB-USAGE.md").write_text("somebody else's")
    monkeypatch.chdir(tmp_path)
    assert error_page("WB-USAGE") == str(ROOT / "docs" / "errors" / "WB-USAGE.md")


def told_of(error: UsageError) -> dict[str, str]:
    """The error wherever somebody meets one, as it is shown there."""

    def fail(token: Token) -> None:
        raise error

    worker = Worker()
    worker.start("reading", fail)
    worker.wait(10)
    shown = {"terminal": in_terminal(error), "notebook": "\n".join(error._render_traceback_())}
    return {**shown, "panel": worker.job.error}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_every_place_that_shows_an_error_names_a_page_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.chdir(tmp_path if elsewhere else ROOT)
    for place, text in told_of(UsageError("WB-USAGE", "no", expected="yes", next="ask")).items():
        [page] = re.findall(r"  page: (\S+)", text)
        assert Path(page).read_text().startswith("# WB-USAGE"), place
        assert Path(page).is_absolute() == elsewhere, place


def test_no_module_but_one_spells_where_pages_lie() -> None:
    spelled = [
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.glob("helpers/**/*.py"))
        if re.search(r"docs/errors/\{|\"docs\"\) / \"errors\"|DOCS / \"errors\"", path.read_text())
    ]
    assert spelled == ["helpers/paths.py"]


@pytest.mark.skipif(not COMMAND.exists(), reason="the workbook is not installed in this checkout")
def test_a_line_that_is_copied_runs_where_it_was_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "serve", "lab", "x", "--timeout", "a", "--json"],
        cwd=tmp_path,
        env=(bare := {"PATH": "/usr/bin:/bin"}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["next"] == "workbook serve --help"
    line = done.stderr.split("next: ")[1].split("\n")[0]
    assert line == f"{COMMAND} serve --help"
    assert subprocess.run(["bash", "-c", line], cwd=tmp_path, env=bare, stdout=subprocess.DEVNULL).returncode == 0
    page = done.stderr.split("page: ")[1].strip()
    assert (tmp_path / page).is_file()
