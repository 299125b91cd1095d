"""What `make lab-check` claims of a pair, from answers written down here; and the dump in its other formats.

.venv/bin/python -m pytest tests/unit/test_lab_check.py
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch
from three_formats import check_same_samples

from helpers import lab_check
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load
from helpers.lab_dumps import write_formats
from helpers.paths import DATA
from helpers.serving import load_profiles
from remote.lab.recipe.loops import looping

REQUESTS = 32


def load(rate: float | None, *, looped: int = 0, other: int = 0, seed: int = 0) -> Load:
    """32 answers of 64 tokens: `looped` of them loop, `other` have another text, drafts are accepted at `rate`."""
    draw = random.Random(seed)
    answers = []
    for number in range(REQUESTS):
        ids = [number, *range(100, 163)] if number >= looped else [number, *([7, 8, 9] * 21)]
        ids[-1] += number < other
        histogram = [0, 0, 0, 0]
        for _ in range(20):
            taken = 0
            while rate is not None and taken < 3 and draw.random() < rate:
                taken += 1
            histogram[taken] += 1
        counters = None if rate is None else RequestCounters(histogram=tuple(histogram), proposed=60)
        answers.append(Answer(f"p{number}", tuple(ids), counters, 1.0))
    return Load(tuple(answers), 64)


GOOD = {
    "baseline": load(None),
    "right": load(0.8),
    "miswired": load(0.3, seed=1),
    "off by one": load(0.7, seed=2),
    "permuted": load(0.15, seed=3),
    "mirror, by its config": load(0.3, seed=4),
    "mirror, as trained": load(0.6, seed=5),
}


def failing(**changes: Load) -> list[str]:
    loads = GOOD | {name.replace("_", " "): value for name, value in changes.items()}
    found = lab_check.report(loads, load_profiles())
    return [claim["text"].split(" ")[0] for claim in found["claims"] if not claim["holds"]]


def test_a_good_pair_fails_nothing() -> None:
    found = lab_check.report(GOOD, load_profiles())
    assert len(found["claims"]) == 7
    assert all(claim["holds"] for claim in found["claims"])
    told = lab_check.table(found)
    assert told.count("equal") == 7  # six arms and the claim
    assert told.count("holds") == 7
    right = found["rows"]["right"]
    assert f"{right['accept_rate']:.3f} [" in told
    assert right["loop_free"]["requests"] == REQUESTS


@pytest.mark.parametrize(
    ("name", "load", "claim"),
    [
        ("right", load(0.8, other=1), "greedy"),
        ("right", load(0.5), "right"),
        ("miswired", load(0.6), "miswired"),
        ("off_by_one", load(0.8), "off"),
        ("permuted", load(0.5), "permuted"),
        ("mirror,_as_trained", load(0.1), "the"),
        ("baseline", load(None, looped=9), "not"),
    ],
)
def test_each_claim_can_fail(name: str, load: Load, claim: str) -> None:
    assert claim in failing(**{name: load})


def test_loops_are_counted_and_left_out_of_the_other_rate() -> None:
    looped = {name: load(rate, looped=5) for name, rate in (("baseline", None), ("right", 0.8))}
    found = lab_check.report(looped, load_profiles())
    assert (found["loops"], found["texts"]) == (5, REQUESTS)
    assert found["rows"]["right"]["loop_free"]["requests"] == REQUESTS - 5
    assert all(c["holds"] for c in found["claims"])  # 5 of 32 may be fewer than a tenth, or a third


def test_a_loop_here_is_a_loop_of_the_recipe() -> None:
    """helpers and remote share no code; they must not part."""
    draw = random.Random(0)
    texts = []
    for _ in range(400):
        period, start = draw.randint(1, 24), draw.randint(0, 40)
        unit = [draw.randrange(3) for _ in range(period)]
        texts.append([draw.randrange(50) for _ in range(start)] + (unit * 64)[: 64 - start])
    told = [lab_check.loops(text) for text in texts]
    assert told == looping(torch.tensor(texts)).tolist()
    assert 50 < sum(told) < 350


def test_arms_serve_the_pairs_own_folders(tmp_path: Path) -> None:
    pair, profiles = DATA / "lab", load_profiles()
    right = lab_check.arm_profile(pair, "right", profiles, tmp_path)
    assert (right.model, right.draft, right.aux_layer_ids) == (str(pair / "target"), str(pair / "drafter"), (1, 4, 8))
    assert lab_check.arm_profile(pair, "baseline", profiles, tmp_path).draft is None
    mirror = lab_check.arm_profile(pair, "mirror, as trained", profiles, tmp_path)
    assert (mirror.draft, mirror.aux_layer_ids) == (str(pair / "mirror/drafter"), (-1, 1, 4))
    assert mirror.patches == ("capture-embedding",)


def test_a_folder_without_a_pair_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab_check.main([str(tmp_path)]) == 2
    assert "WB-LAB-PAIR" in capsys.readouterr().err


def test_three_formats_of_one_dump(tmp_path: Path) -> None:
    for name in ("target", "dump"):
        shutil.copytree(DATA / "lab" / name, tmp_path / name)
    write_formats(tmp_path)
    assert check_same_samples(tmp_path) == 12
    write_formats(tmp_path)  # again: the folders are made anew
