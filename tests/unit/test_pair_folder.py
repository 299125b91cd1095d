"""What a pair's folder must hold, and the command that goes on in one that is not finished.

.venv/bin/python -m pytest tests/unit/test_pair_folder.py
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from helpers.errors import UsageError
from helpers.figures import remarks
from helpers.lab_check.asked import asked
from helpers.lab_pair import OWN, goes_on, prompts_of, read_training
from helpers.paths import DATA, ROOT

#: In the order in which the recipe writes them.
FILES = [
    *(f"target/{name}" for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")),
    *(f"{folder}/{name}" for folder in ("drafter", "mirror/drafter") for name in ("config.json", "model.safetensors")),
    "lab-heldout.jsonl",
]


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for folder in ("target", "drafter", "mirror/drafter"):
        shutil.copytree(DATA / "lab" / folder, tmp_path / "pair" / folder)
    shutil.copy(DATA / "prompts" / "lab-heldout.jsonl", tmp_path / "pair")
    return tmp_path / "pair"


def refused(*words: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        asked([str(word) for word in words])
    assert caught.value.code == "WB-LAB-PAIR"
    return caught.value


@pytest.mark.parametrize("lost", FILES)
def test_each_file_is_needed(pair: Path, lost: str) -> None:
    assert asked([str(pair)]).prompts
    (pair / lost).unlink()
    error = refused(pair)
    assert error.message == f"{pair} lacks {lost}"
    assert error.next == f"make lab-train OUT={pair}"


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    assert refused(tmp_path).message == f"{tmp_path} lacks {', '.join(FILES)}"
    assert refused(tmp_path / "no").message == f"{tmp_path / 'no'} is no folder"


def test_only_what_the_wanted_arms_serve_is_needed(pair: Path) -> None:
    shutil.rmtree(pair / "mirror")
    (pair / "lab-heldout.jsonl").unlink()
    own = DATA / "prompts" / "lab-fresh.jsonl"
    assert len(asked([str(pair), "--arms", "right;permuted", "--prompts", str(own)]).prompts) == 64
    assert "mirror/drafter/config.json" in refused(pair, "--prompts", own).message
    assert refused(pair, "--arms", "right").message.endswith("lacks lab-heldout.jsonl")


def test_the_projects_prompts_stand_in_for_its_own_pair_alone(tmp_path: Path) -> None:
    """However its path is written; another seed's pair has held-out texts of its own."""
    (tmp_path / "link").symlink_to(OWN)
    for written in (OWN, OWN / ".." / "lab", tmp_path / "link"):
        assert prompts_of(written) == DATA / "prompts" / "lab-heldout.jsonl"
    assert prompts_of(tmp_path) == tmp_path / "lab-heldout.jsonl"


@pytest.mark.parametrize(
    ("begun", "words"),
    [
        ({"seed": 2, "budget": "full"}, "SEED=2 "),
        ({"seed": 3, "budget": "tiny"}, "SEED=3 BUDGET=tiny "),
        ({"seed": "$(id)", "budget": 7}, ""),
        ([2], ""),
        (None, ""),
    ],
)
def test_training_goes_on_with_the_words_that_it_was_begun_with(tmp_path: Path, begun: object, words: str) -> None:
    (tmp_path / "run.json").write_text("{" if begun is None else json.dumps(begun))
    assert goes_on(tmp_path) == f"make lab-train {words}OUT={tmp_path}"


def test_a_folder_of_the_checkout_is_named_as_make_takes_it() -> None:
    assert goes_on(ROOT / ".lab-train" / "full-9") == "make lab-train OUT=.lab-train/full-9"
    assert goes_on(ROOT / "data" / "lab") == "git restore data/lab"


def test_a_name_that_a_shell_and_make_would_read_arrives_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(HOME) a b"
    folder.mkdir()
    command = f"{goes_on(folder)} -n --no-print-directory PYTHON=false"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=True)  # noqa: S602
    assert f'--out "{folder}"' in done.stdout


def test_training_that_has_not_come_to_its_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "losses.jsonl").write_text('{"stage": "target", "step": 2, "train": 6.9}\n')
    with pytest.raises(UsageError, match=r"lacks MODEL_CARD\.md"):
        read_training(tmp_path)
    (tmp_path / "MODEL_CARD.md").write_text("card")
    assert read_training(tmp_path).card == "card"
    (tmp_path / "losses.jsonl").write_text('{"stage": "tar')
    with pytest.raises(UsageError, match=r"losses\.jsonl cannot be read"):
        read_training(tmp_path)


def test_the_notebook_is_of_whichever_pair_it_is_given() -> None:
    """Only its parameter names the project's own; commands are made of that."""
    cells = json.loads((ROOT / "notebooks" / "05_the_lab_pair.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [source.count("data/lab") for source in code] == [1] + [0] * (len(code) - 1)
    assert "--draft data/lab" not in "".join("".join(cell["source"]) for cell in cells)


def test_the_own_pairs_training_is_told_with_its_budgets() -> None:
    told = remarks.budgets(read_training(OWN).rows, ["drafter", "mirror"], "held_rate")
    assert told == (
        "drafter had 3000 steps, mirror had 600 steps. At its own end each has held_rate 0.540 (drafter), 0.356 "
        "(mirror). At step 600, the last that all were measured at: 0.311 (drafter), 0.356 (mirror)."
    )


def test_budgets_without_a_step_in_common() -> None:
    rows = pd.DataFrame([("a", 4, 0.5), ("b", 6, 0.4), ("c", 6, float("nan"))], columns=["stage", "step", "rate"])
    assert remarks.budgets(rows, ["a", "b"], "rate").endswith("There is no step at which all were measured.")
    assert remarks.budgets(rows, ["a", "c"], "rate").startswith("There are no two trainings")
