"""The commands of a report run elsewhere: every word is what it was, once the places are set."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from helpers.ledger import Ledger, open_ledger
from helpers.ledger.recipe import FOLDER, recipe
from helpers.ledger.results import Summary
from helpers.paths import ROOT

#: Prints the words that a command would get, one a line, and an empty line after it.
ECHO = """workbook() { printf '%s\\n' "$@" ''; }\n"""


class Seen:
    """A result with a command, as the readers of results give it."""

    def __init__(self, command: str, source: str = "diagnosis", **more: Any) -> None:
        self.summary = Summary(source, command, "seen", command=command, **more)

    def __evidence__(self) -> Summary:
        return self.summary


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    root = tmp_path / "my $HOME `ls`"
    monkeypatch.setenv(FOLDER, str(root))
    return open_ledger("case")


def typed(lines: list[str], cwd: Path, **places: str) -> list[list[str]]:
    """The commands' words as a shell reads the recipe, with the places set as a colleague would."""
    script = ["set -eu", ECHO]
    for line in lines:
        name = line.removeprefix("export ").partition("=")[0]
        script.append(f"export {name}={shlex.quote(places[name])}" if name in places else line)
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=cwd, capture_output=True, text=True, check=True)
    return [block.split("\n") for block in done.stdout.strip("\n").split("\n\n")]


def test_every_word_is_what_it_was_once_the_folder_is_set(ledger: Ledger, tmp_path: Path) -> None:
    capture, dump = ledger.folder / "captures" / 'a "b" $c', tmp_path / "the dump"
    command = ["workbook", "diagnose", "--served", str(capture), "--train", str(dump), "--draft", "DRAFT"]
    ledger.evidence(Seen(shlex.join(command)))
    ledger.evidence(Seen("workbook facts lab", "facts"))
    lines = recipe(ledger)
    body = [line for line in lines if line.startswith("workbook")]
    assert not [line for line in body if str(tmp_path) in line], "places stand above the commands, once"
    elsewhere = tmp_path / "elsewhere"
    said = typed(lines, tmp_path, WORKBOOK_INVESTIGATIONS=str(elsewhere), DRAFT="a draft")
    there = str(elsewhere / "case" / "captures" / 'a "b" $c')
    assert said[:3] == [
        ["lab", "up"],
        ["facts", "lab"],
        ["diagnose", "--served", there, "--train", str(dump), "--draft", "a draft"],
    ]


def test_what_is_not_known_is_to_be_set_and_says_so(ledger: Ledger) -> None:
    ledger.evidence(Seen("workbook replay --draft DRAFT --capture CAPTURE", "replay"))
    lines = recipe(ledger)
    assert [line for line in lines if line.startswith("DRAFT=")] == [
        "DRAFT=...  # not recorded, set it: the drafter's folder on this machine"
    ]
    assert 'workbook replay --draft "$DRAFT" --capture "$CAPTURE"' in lines


def test_two_dumps_are_two_variables_and_paths_of_the_checkout_are_relative(ledger: Ledger, tmp_path: Path) -> None:
    for dump in (ROOT / "data/lab/dump", tmp_path / "other"):
        ledger.evidence(Seen(f"workbook diagnose --served CAPTURE --train {shlex.quote(str(dump))}"))
    ledger.evidence(Seen("workbook diagnose --served CAPTURE --train DUMP"), title="again")
    lines = recipe(ledger)
    assert "DUMP=data/lab/dump  # the training dump" in lines
    assert f"DUMP_2={tmp_path / 'other'}  # the training dump" in lines
    assert sum("diagnose" in line for line in lines) == 2, "the same command is there once"


def test_lines_that_were_read_with_a_patch_in_are_read_so_again(ledger: Ledger) -> None:
    for patches in ((), ("capture-embedding@0123",)):
        seen = Seen("workbook grep lab 'embed\\|taps' a.py", "source", patches=patches)
        ledger.evidence(seen, title=f"lines {len(patches)}")
    ledger.evidence(Seen("workbook serve lab miswired", "run", patches=("capture-embedding",)), title="a run")
    said = [line.partition("  #")[0] for line in recipe(ledger)]
    at = said.index('workbook patch "$BOX" apply capture-embedding')
    grep = """workbook grep "$BOX" 'embed\\|taps' a.py"""
    assert said[at - 1 : at + 3] == [grep, said[at], grep, 'workbook patch "$BOX" revert capture-embedding']
    assert not [line for line in said if "serve" in line], "what comes later starts the servers that it needs"


def test_a_capture_is_served_captured_and_stopped(ledger: Ledger) -> None:
    line = "workbook serve BOX a && workbook capture BOX a --replay DUMP --out again/x && workbook stop BOX a"
    ledger.evidence(Seen(line, "capture"), places={"BOX": "ann@gpu", "DUMP": ROOT / "data/lab/dump"})
    said = [line for line in recipe(ledger) if '"$BOX"' in line]
    assert said == [
        'workbook serve "$BOX" a',
        'workbook capture "$BOX" a --replay "$DUMP" --out again/x',
        'workbook stop "$BOX" a',
    ]


def test_the_new_capture_is_asked_as_the_old_one_was(ledger: Ledger) -> None:
    """Else the recipe captures anew and then looks at the old tensors: no check that is independent of the report."""
    old, new = ledger.folder / "captures" / "x", ledger.folder / "captures-again" / "x"
    old.mkdir(parents=True)
    (old / "capture.json").write_text("{}")
    line = f"workbook capture BOX a --replay DUMP --out {shlex.quote(str(new))}"
    files = ((old / "capture.json", None),)
    ledger.evidence(Seen(line, "capture", files=files), places={"BOX": "lab"})
    ledger.evidence(Seen(shlex.join(["workbook", "diagnose", "--served", str(old), "--train", "DUMP"])))
    said = recipe(ledger)
    asked = [line for line in said if line.startswith("workbook diagnose")]
    assert asked == [
        f'workbook diagnose --served "${FOLDER}/case/{where}/x" --train "$DUMP"'
        for where in ("captures-again", "captures")
    ]
    places = [at for at, line in enumerate(said) if line.startswith(("workbook capture", "workbook diagnose"))]
    assert places == sorted(places)
    assert said.index(asked[0]) > next(at for at, line in enumerate(said) if "from the new capture" in line)


def test_a_copied_investigations_recipe_names_the_copy(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ledger.folder / "captures" / "x"
    old.mkdir(parents=True)
    (old / "capture.json").write_text("{}")
    out = shlex.quote(str(ledger.folder / "captures-again" / "x"))
    ledger.evidence(Seen(f"workbook capture BOX a --out {out}", "capture", files=((old / "capture.json", None),)))
    ledger.evidence(Seen(shlex.join(["workbook", "diagnose", "--served", str(old), "--train", "DUMP"])))
    before = recipe(ledger)
    shutil.copytree(ledger.folder, tmp_path / "elsewhere" / "case")
    monkeypatch.setenv(FOLDER, str(tmp_path / "elsewhere"))
    assert recipe(open_ledger("case")) == before


@pytest.mark.parametrize("box", ["lab", "ann@gpu"])
def test_the_lab_is_started_before_anything_is_asked_of_it(ledger: Ledger, box: str) -> None:
    ledger.evidence(Seen(f"workbook facts {box}", "facts"))
    typed_lines = [line for line in recipe(ledger) if line.startswith("workbook ")]
    assert (typed_lines[0] == "workbook lab up") is (box == "lab")
    assert ("workbook lab up" in typed_lines) is (box == "lab")


def test_what_each_slot_costs_has_its_command_and_what_has_none_is_named(ledger: Ledger) -> None:
    slots = [{"trained": {"boundary": b}} for b in (2, 5, 9)]
    ledger.evidence(Seen("workbook diagnose --served C --train D", values={"slots": slots}))
    line = "workbook replay --draft D --target T --capture C --taps 0,2,5 --new-tokens 48"
    ledger.evidence(Seen(line, "replay", run="miswired-1"))
    figure = go.Figure(layout={"title": {"text": "What each slot costs: one slot changed at a time"}})
    ledger.evidence(figure, title="costs", run="miswired-1")
    last = ledger.evidence({"equal": 8}, title="counters\nrm -rf /")
    said = recipe(ledger)
    assert [line.partition("--new-tokens ")[2] for line in said if "--ablate" in line] == ["48 --ablate --right 2,5,9"]
    at = said.index("# no command of their own; what they are, and what they follow from:")
    assert said[at + 1 :][:2] == [f"#   {last.id}: numbers; of what it was made is not recorded", ""]
