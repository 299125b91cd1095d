"""What the argument parser refuses: the value that was met, what was expected, and a coded error."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.exceptions import TyperException

from helpers.cli import main
from helpers.commands.refused import refused

BENCH = ("bench", "lab", "right", "--prompts", "f")
WHOLE = "a whole number"


@pytest.mark.parametrize(
    ("words", "met", "expected"),
    [
        ((*BENCH, "--limit", "ten"), "'ten'", f"{WHOLE} of 1 or more"),
        ((*BENCH, "--limit", "0"), "'0'", f"{WHOLE} of 1 or more"),
        ((*BENCH, "--concurrency", "2.5"), "'2.5'", f"{WHOLE} from 1 to 64"),
        ((*BENCH, "--concurrency", "65"), "'65'", f"{WHOLE} from 1 to 64"),
        ((*BENCH, "--seed", "1", "--seed", "x"), "'x'", WHOLE),
        ((*BENCH, "--temperature", "warm"), "'warm'", "a number of 0 or more"),
        ((*BENCH, "--temperature=-1"), "'-1'", "a number of 0 or more"),
        ((*BENCH, "--top-p", "1.5"), "'1.5'", "a number from 0 to 1"),
        (("lab", "up", "--port", "http"), "'http'", f"{WHOLE} from 1 to 65535"),
        (("logs", "lab", "r", "-n", "\x1b[31m"), "'\\x1b[31m'", f"{WHOLE} of 0 or more"),
        (("patch", "lab", "aply", "x"), "'aply'", "one of plan, apply, status, revert, ids"),
    ],
)
def test_the_value_and_what_was_expected(
    words: tuple[str, ...], met: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (ended.value.code, error["code"]) == (2, "WB-USAGE")
    option = words[-2] if words[-2].startswith("-") else words[-1].partition("=")[0] if "=" in words[-1] else "action"
    assert option in error["message"].casefold()
    assert f": {met} is not " in error["message"]
    assert error["expected"] == expected
    assert "Input should" not in error["message"]
    assert error["next"].endswith(" --help")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def parsed(*words: str) -> str:
    """What is said of words for a command with parameters of every kind."""
    app = typer.Typer()

    @app.command()
    def command(
        count: Annotated[int, typer.Option()] = 0,
        share: Annotated[float, typer.Option(max=1)] = 0.0,
        colour: Annotated[Colour | None, typer.Option()] = None,
        file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
        switch: Annotated[bool, typer.Option(envvar="WORKBOOK_TEST_SWITCH")] = False,
    ) -> None: ...

    with pytest.raises(TyperException) as caught:
        typer.main.get_command(app).make_context("it", list(words))
    return str(refused(caught.value))


def test_every_kind_of_parameter_says_what_it_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'x' is not a whole number\n  expected: a whole number\n" in parsed("--count", "x")
    assert "'2' is not a number of 1 at most\n" in parsed("--share", "2")
    said = parsed("--colour", "blu")
    assert "'blu' is not one of 'red', 'blue'." in said
    assert "expected: one of red, blue\n  next: did you mean 'blue'? else: it --help" in said
    assert "/nowhere/x' does not exist" in parsed("--file", "/nowhere/x")
    assert "is a directory" in parsed("--file", str(tmp_path))
    assert "expected: it [OPTIONS]" in parsed("--cuont", "1")
    monkeypatch.setenv("WORKBOOK_TEST_SWITCH", "maybe")
    assert "'maybe' is not true or false" in parsed()
