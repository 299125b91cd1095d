"""What the lab stands on: EAGLE-3 accepts drafts, and never changes a greedy text. At TP 1 and at TP 2.

On a CPU, SGLang 0.5.9's greedy verification does nothing unless the engine puts one in its place: everything looks well
then, and no draft is ever accepted. These tests fail in that case.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from helpers.acceptance import Load, Prompt, run_load
from helpers.acceptance.counters import pool
from helpers.acceptance.load import first_difference
from helpers.box import Box
from helpers.paths import DATA
from helpers.serving import Profile, serving
from helpers.serving.capture import capture
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose

NEW_TOKENS = 24


@dataclass(frozen=True)
class Seen:
    """What one server with speculation gave: its load, and a capture of two dump samples."""

    load: Load
    captured: Capture
    diagnosis: Diagnosis


def see(box: Box, profile: Profile, prompts: list[Prompt], out: Path) -> Seen:
    dump = read_dump(DATA / "lab" / "dump")
    replayed = [Prompt(f"sample-{i}", tuple(dump[i].token_ids.tolist())) for i in range(2)]
    with serving(box, profile.model_copy(update={"capture": True}), progress=False) as served:
        load = run_load(served.url, prompts, max_new_tokens=NEW_TOKENS, progress=False)
        capture(box, served.run, replayed, max_new_tokens=12, out=out, terms=True, progress=False)
    captured = read_capture(out, verify=True)
    return Seen(load, captured, diagnose(captured, dump, convention=SGLANG_059_DEEPSEEK))


@pytest.fixture(scope="module")
def baseline(box: Box, profiles: dict[str, Profile], prompts: list[Prompt]) -> Load:
    with serving(box, profiles["baseline"], progress=False) as served:
        return run_load(served.url, prompts, max_new_tokens=NEW_TOKENS, progress=False)


@pytest.fixture(scope="module")
def right(profiles: dict[str, Profile]) -> Profile:
    return profiles["right"]


@pytest.fixture(scope="module")
def one(
    box: Box, profiles: dict[str, Profile], prompts: list[Prompt], tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    return see(box, profiles["right"], prompts, tmp_path_factory.mktemp("tp1"))


@pytest.fixture(scope="module")
def two(
    box: Box, profiles: dict[str, Profile], prompts: list[Prompt], tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    return see(box, profiles["right"].model_copy(update={"tp": 2}), prompts, tmp_path_factory.mktemp("tp2"))


@pytest.mark.parametrize("ranks", ["one", "two"])
def test_verification_is_no_no_op(ranks: str, request: pytest.FixtureRequest) -> None:
    seen: Seen = request.getfixturevalue(ranks)
    pooled = pool(seen.load.counters, num_steps=3)
    assert pooled.verify_steps > 30
    assert pooled.accept_rate > 0.3  # .51 over all prompts; a no-op accepts none


@pytest.mark.parametrize("ranks", ["one", "two"])
def test_greedy_text_is_the_baselines(ranks: str, baseline: Load, request: pytest.FixtureRequest) -> None:
    seen: Seen = request.getfixturevalue(ranks)
    assert first_difference(seen.load, baseline) is None
    assert all(len(answer.output_ids) == NEW_TOKENS for answer in baseline.answers)


def test_two_ranks_accept_what_one_accepts(one: Seen, two: Seen) -> None:
    assert [a.output_ids for a in two.load.answers] == [a.output_ids for a in one.load.answers]


def test_both_ranks_captured_the_same_bits(two: Seen) -> None:
    first, second = two.captured.ranks
    names = ["feed", *(f"boundary.{b:03d}" for b in first.boundaries)]
    assert len(names) == 12
    for name in names:
        assert torch.equal(first.tensor(name), second.tensor(name)), name
    assert torch.equal(first.token_ids, second.token_ids)


@pytest.mark.parametrize("ranks", ["one", "two"])
def test_the_feed_is_the_taps_bit_for_bit(ranks: str, request: pytest.FixtureRequest) -> None:
    seen: Seen = request.getfixturevalue(ranks)
    rank = seen.captured.ranks[0]
    rows = rank.feed_rows
    assert rows is not None
    taps = torch.cat([rank.tensor(f"boundary.{b:03d}")[rows] for b in (2, 5, 9)], dim=1)
    assert torch.equal(rank.tensor("feed"), taps)


def test_the_rows_are_the_text_that_was_produced(one: Seen) -> None:
    rank = one.captured.ranks[0]
    for request in one.captured.info.requests:
        rows = slice(request.start, request.start + request.length)
        assert rank.positions[rows].tolist() == list(range(request.length))
        assert request.length > request.prompt_tokens  # verify passes added rows, rejected drafts none


def test_both_terms_of_a_boundary_add_up(one: Seen) -> None:
    rank = one.captured.ranks[0]
    total = rank.tensor("out.5") + rank.tensor("residual.5")
    assert torch.equal(total, rank.tensor("boundary.005"))


@pytest.mark.parametrize("ranks", ["one", "two"])
def test_a_good_wiring_is_called_good(ranks: str, request: pytest.FixtureRequest) -> None:
    seen: Seen = request.getfixturevalue(ranks)
    assert seen.diagnosis.verdict == "match"
    assert "features-match" in seen.diagnosis.codes()
    assert seen.diagnosis.fix is None
