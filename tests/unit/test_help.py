"""What `workbook COMMAND --help` shows on a narrow terminal: text that flows, and nothing cut."""

from __future__ import annotations

import itertools
import json

import pytest
import typer

from helpers.cli import main
from helpers.commands.app import app

WIDTH = 80


def commands(group: typer.Typer, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    own = [(*above, c.name or c.callback.__name__) for c in group.registered_commands if c.callback is not None]
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        own += commands(inner.typer_instance, (*above, str(inner.name)))
    return own


@pytest.mark.parametrize("command", commands(app), ids=" ".join)
def test_text_flows_and_nothing_is_cut(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown, "something is cut"
    lines = [
        line.strip()
        for line in shown.partition("Usage:")[2]
        .partition("\n")[2]
        .partition("\N{BOX DRAWINGS LIGHT ARC DOWN AND RIGHT}")[0]
        .splitlines()
    ]
    assert any(lines)
    for line, after in itertools.pairwise(lines):
        if line and after:
            assert len(line) + 1 + len(after.split()[0]) > WIDTH - 3, f"broken after {line!r}"


def test_help_tells_where_names_lie_and_what_a_capture_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def shown(command: str) -> str:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        return " ".join(capsys.readouterr().out.split())

    assert "remote/patches/sglang-VERSION/" in shown("patch")
    capture = shown("capture")
    assert "capture = true" in capture
    assert "data/investigations/captures" in capture


def test_a_patch_without_a_name_is_told_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["patch", "lab", "apply", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (ended.value.code, error["code"]) == (2, "WB-USAGE")
    assert "capture-embedding" in error["expected"]
    assert error["next"] == "workbook patch lab status"
