"""What somebody else chose as a name neither paints the screen nor runs in a shell; and no empty word means all."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.box.transient import by_hand, unreachable
from helpers.cli import main
from helpers.commands.output import emit
from helpers.errors import UsageError
from helpers.ledger import open_ledger
from helpers.screen import as_typed, visible
from helpers.serving import get_profile

HOSTILE = ["a b", "it's", 'q"q', "$(id)", "`id`", "-rf", "a\nb", "a\x1b[31m", "ü—名", ";id", "*", "~", "", "a\\b'\n"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_suggested_command_has_the_name_as_one_word_on_one_line(name: str) -> None:
    typed = as_typed(name)
    assert "\n" not in typed
    assert "\x1b" not in typed
    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {typed}"], capture_output=True, text=True, check=True)
    assert said.stdout == f"{name}\0"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_whatever_is_visible_is_quoted_plainly(name: str) -> None:
    if visible(name) == name:
        assert shlex.split(as_typed(name)) == [name]
    assert visible(visible(name)) == visible(name)
    assert not set(visible(name)) & {chr(number) for number in (*range(9), *range(10, 32), 127, 0x9B, 0x202E)}


def test_an_error_keeps_its_lines_whatever_a_name_holds() -> None:
    error = UsageError("WB-USAGE", "no x\n  next: rm -rf ~", expected="\x1b[31m", next="a\nb", lines=["one\ntwo\x07"])
    assert str(error).splitlines() == [
        "WB-USAGE: no x␊  next: rm -rf ~",
        "  expected: ␛[31m",
        "  | one",
        "  | two␇",
        "  next: a␊b",
    ]
    assert error.to_json()["error"]["message"] == "no x\n  next: rm -rf ~"


def test_text_for_people_has_no_control_characters_and_json_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"name": "a\x1b[31m"}, as_json=False, text="one \x1b[31m\ntwo")
    assert capsys.readouterr().out == "one ␛[31m\ntwo\n"
    emit({"name": "a\x1b[31m"}, as_json=True, text="")
    assert '"a\\u001b[31m"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [("pull", "lab", "", "x"), ("push", "", "lab", "x"), ("facts", "--", ""), ("report", ""), ("stop", "lab", "")],
)
def test_an_empty_word_is_refused_before_anything_is_done(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """``workbook pull lab "$RUN" .`` with no RUN would fetch the whole home."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    assert f"of workbook {words[0]} is empty" in capsys.readouterr().err


def test_a_mistyped_word_of_a_choice_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["patch", "lab", "aply", "x"])
    told = capsys.readouterr().err
    assert "'aply' is not one of" in told
    assert "Value error" not in told
    (line,) = [line for line in told.splitlines() if "next: did you mean 'apply'? else: " in line]
    assert line.endswith("workbook patch --help")


def test_ctrl_c_while_the_command_is_imported_is_an_interrupt() -> None:
    script = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from helpers.cli import main
main(["version"])
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_hand_made_connection_goes_to_the_same_port() -> None:
    told = {where: by_hand(where) for where in ("me@box:2222", "[::1]:1", "::1", "alias", "lab;id", "ssh://me@box")}
    assert told == {
        "me@box:2222": "-p 2222 me@box",
        "[::1]:1": "-p 1 ::1",
        "::1": "::1",
        "alias": "alias",
        "lab;id": "'lab;id'",
        "ssh://me@box": "me@box",
    }
    assert unreachable("box:1", "box:1", "refused", 15).next.endswith("ssh -v -p 1 box")


def test_a_name_that_no_profile_and_no_investigation_can_have() -> None:
    with pytest.raises(UsageError, match="a profile's name is of letters"):
        get_profile("$(id)")
    with pytest.raises(UsageError, match=r'add \[profiles\."a\.b"\] to'):
        get_profile("a.b")
    with pytest.raises(UsageError) as caught:
        open_ledger("two\nlines")
    assert caught.value.code == "WB-LEDGER-NAME"
