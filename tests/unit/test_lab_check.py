"""What `make lab-check` claims of a pair, from answers written down here.

.venv/bin/python -m pytest tests/unit/test_lab_check.py
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from lab_answers import GOOD, REQUESTS, load, uneven

from helpers import lab_check
from helpers.acceptance.load_records import Load
from helpers.paths import DATA
from helpers.serving import load_profiles
from remote.lab.recipe.loops import looping


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


def told(**changes: Load) -> dict[str, tuple[bool, str]]:
    """Whether each claim holds, and its text, by its first word."""
    loads = GOOD | {name.replace("_", " "): value for name, value in changes.items()}
    found = lab_check.report(loads, load_profiles())
    return {claim["text"].split(" ")[0]: (claim["holds"], claim["text"]) for claim in found["claims"]}


def test_a_rate_on_the_right_side_whose_interval_is_not_shows_nothing() -> None:
    """A few prompts of 32 carry the difference: the point estimates are where they should be, by chance perhaps."""
    right = uneven((32, 0.6))
    for name, rates in (("miswired", ((30, 0.25), (2, 0.9))), ("permuted", ((30, 0.15), (2, 0.75)))):
        other = uneven(*rates)
        found = lab_check.report(GOOD | {"right": right, name: other}, load_profiles())
        share = found["shares"][name]
        assert share["excess"] < 0 < share["ci95"][1]
        holds, text = told(right=right, **{name: other})[name]
        assert not holds
        assert f"{share['excess']:+.3f} [{share['ci95'][0]:+.3f}, {share['ci95'][1]:+.3f}], paired over 32" in text
    config, trained = uneven((30, 0.3), (2, 0.3)), uneven((30, 0.3), (2, 0.9))
    holds, text = told(**{"mirror,_by_its_config": config, "mirror,_as_trained": trained})["the"]
    assert not holds
    assert "by 0.038 [0.000, 0." in text


def test_the_bar_of_right_is_held_by_the_rate_and_its_text_says_where_the_interval_reaches() -> None:
    holds, text = told(right=uneven((16, 0.45), (16, 0.6)))["right"]
    assert holds
    assert "0.525 [0." in text
    assert text.endswith("(as measured; the interval reaches below)")
    holds, text = told(right=uneven((16, 0.4), (16, 0.55)))["right"]
    assert not holds
    assert text.endswith("(as measured; the interval reaches above)")
    holds, text = told(right=load(0.8))["right"]
    assert holds
    assert text.endswith("]")


def test_every_claim_that_compares_has_an_interval_and_its_n() -> None:
    for word, (_, text) in told().items():
        assert ("[" in text) == (word != "greedy")
        assert "32" in text or word == "right"


@pytest.mark.parametrize(("new", "claimed"), [(39, False), (40, True)])
def test_texts_too_short_for_a_loop_make_no_claim_of_loops(new: int, claimed: bool) -> None:
    loads = {name: load(rate, looped=5, new=new) for name, rate in (("baseline", None), ("right", 0.8))}
    found = lab_check.report(loads, load_profiles())
    assert any("loop" in claim["text"] for claim in found["claims"]) == claimed
    assert (found["rows"]["right"]["loop_free"] is not None) == claimed
    assert ("note: nothing is claimed of loops: no text has the 40 new tokens" in lab_check.table(found)) != claimed


@pytest.mark.parametrize(("requests", "warned"), [(7, True), (8, False)])
def test_few_prompts_are_said_to_be_few(requests: int, warned: bool) -> None:
    loads = {name: load(rate, requests=requests) for name, rate in (("baseline", None), ("right", 0.8))}
    shown = lab_check.table(lab_check.report(loads, load_profiles()))
    assert (f"note: over {requests} prompts: an interval drawn from so few is too narrow" in shown) == warned


def test_the_baseline_alone_claims_nothing_of_other_texts() -> None:
    found = lab_check.report({"baseline": load(None)}, load_profiles())
    assert [claim["text"].split(" ")[0] for claim in found["claims"]] == ["not"]


def test_a_table_says_of_what_it_is_and_what_it_lacks() -> None:
    of = {
        "pair": "data/lab",
        "sha256": {"target": "a" * 64, "drafter": "b" * 64},
        "prompts": {"file": "p.jsonl", "sha256": "c" * 64, "n": 32},
        "max_new_tokens": 64,
        "engine": "sglang==0.5.9",
        "dtype": "float32",
    }
    loads = {name: GOOD[name] for name in ("baseline", "right")}
    found = lab_check.report(loads, load_profiles(), of=of, missing=["miswired"])
    lines = lab_check.table(found).splitlines()
    assert lines[0] == (
        "pair data/lab (target aaaaaaaaaaaa, drafter bbbbbbbbbbbb), 32 prompts of p.jsonl (cccccccccccc), "
        "64 new tokens, sglang==0.5.9, float32"
    )
    assert lines[2] == "INCOMPLETE: miswired gave no answers; this is of the rest alone."
    assert (found["of"], found["missing"]) == (of, ["miswired"])
