"""Answers to one prompt are alike, also across seeds and passes: what intervals draw and verdicts count is prompts.

.venv/bin/python -m pytest tests/unit/test_prompts_are_the_units.py
"""

from __future__ import annotations

import json

import pytest

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load
from helpers.acceptance.measurement import Measurement, compare, measurement
from helpers.acceptance.sources import read_blocks
from helpers.acceptance.sweep_results import Sweep, sweep_text
from helpers.acceptance.sweep_rounds import Rounds, rounds_text
from helpers.acceptance.sweep_state import Row
from helpers.errors import UsageError
from helpers.ledger.judging import judge_fix, judge_gain, judge_shortfall
from helpers.paths import DOCS
from helpers.serving.profile import Profile, Speculation

PROFILE = Profile(
    name="right",
    engine="sglang==0.5.9",
    model="~/m",
    draft="~/d",
    speculation=Speculation(num_steps=3, num_draft_tokens=4),
)
GOOD, BAD = (0, 0, 2, 8), (8, 2, 0, 0)


def load(prompts: int, seeds: int, *, shift: int = 0) -> Load:
    """Every other prompt accepts well, whatever the seed."""
    answers = [
        Answer(f"p{n}", (1, 2), RequestCounters(GOOD if (n + shift) % 2 else BAD, 30), 1.0, seed=seed)
        for seed in range(seeds)
        for n in range(prompts)
    ]
    return Load(tuple(answers), 2)


def test_two_prompts_with_four_seeds_are_two() -> None:
    found = measurement(PROFILE, load(2, 4))
    assert (found.requests, found.prompts, found.units) == (8, 2, 2)
    assert "2 is too few prompts" in judge_shortfall(found, 0.99).reason
    gain = compare("right", load(2, 4), "other", load(2, 4, shift=1))
    assert gain.requests == 2
    assert "paired over 2 prompts" in str(gain)
    assert judge_gain(gain.ci95, gain.requests).outcome == "inconclusive"
    assert judge_fix(gain, found, promised=0.1, equal_text=True).reason.startswith("2 is too few prompts")


def test_seeds_make_no_difference_of_loads_surer() -> None:
    once, often = (compare("a", load(8, seeds), "b", load(8, seeds, shift=1)) for seeds in (1, 6))
    assert often.ci95 == pytest.approx(once.ci95)
    assert often.requests == once.requests == 8


def test_passes_of_a_row_that_counted_no_prompts_are_no_prompts() -> None:
    """Of an earlier version's row: two passes over four prompts."""
    row = measurement(PROFILE, [load(4, 1), load(4, 1)]).model_copy(update={"prompts": None})
    assert (row.requests, row.units) == (8, 4)
    assert Measurement.model_validate(row.model_dump(exclude={"prompts"})).units == 4


def test_a_sweep_says_so_of_its_points() -> None:
    axes = {"ids": None, "num_steps": 3, "batch_size": 1}
    row = Row(point="right", status="done", axes=axes, measurement=measurement(PROFILE, load(2, 4)))
    found = Sweep(DOCS, (row,), ())
    assert "note: over 2 prompts: an interval drawn from so few" in sweep_text(found)
    assert "note: over 2 prompts: an interval drawn from so few" in rounds_text(Rounds(DOCS, (found, found)))


def test_nothing_in_common_is_no_traceback() -> None:
    plain = Load(tuple(Answer(f"p{n}", (1, 2), None, 1.0) for n in range(3)), 2)
    with pytest.raises(UsageError) as caught:
        compare("right", load(3, 1), "plain", plain)
    assert caught.value.code == "WB-COUNTERS-NONE"


def saved(prompts: int, seeds: int, *, named: bool = True) -> list[bytes]:
    lines = []
    for answer in load(prompts, seeds).answers:
        assert answer.counters is not None
        meta = {
            "spec_verify_ct": 10,
            "spec_draft_token_num": 30,
            "spec_accept_token_num": answer.counters.correct,
            "spec_accept_histogram": list(answer.counters.histogram),
        }
        lines.append(json.dumps({"ok": True, "meta_info": meta} | ({"prompt": answer.id} if named else {})))
    return ["\n".join(lines).encode()]


def test_saved_answers_are_drawn_by_prompt_where_they_name_it() -> None:
    once, often = (read_blocks(saved(8, seeds), "rows") for seeds in (1, 5))
    assert often.accept_rate_ci95 == once.accept_rate_ci95
    assert often.accept_length_ci95 == once.accept_length_ci95
    assert often.survival_ci95 == once.survival_ci95
    assert "40 answers to 8 prompts: intervals draw prompts" in often.warnings
    assert not [told for told in once.warnings if "prompts" in told or "decide nothing" in told]
    few = read_blocks(saved(2, 5), "rows")
    assert [told for told in few.warnings if "over 2 requests" in told]
    assert not [told for told in read_blocks(saved(2, 5, named=False), "rows").warnings if "decide nothing" in told]
