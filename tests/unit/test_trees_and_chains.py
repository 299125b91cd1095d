"""topk > 1: correct / proposed is one meaning everywhere, and a tree's rate stands for no chain's.

.venv/bin/python -m pytest tests/unit/test_trees_and_chains.py
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import streams
from replay_world import World

from helpers.acceptance.bench_text import versus_text
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load
from helpers.acceptance.measurement import Measurement, PairedDifference, compare, measurement
from helpers.acceptance.sweep_results import sweep_frame
from helpers.acceptance.sweep_rounds import pooled_frame
from helpers.acceptance.sweep_state import Row
from helpers.acceptance.tables import comparison, length_rows
from helpers.acceptance.versus import versus
from helpers.errors import UsageError
from helpers.ledger.judging import judge_fix, judge_shortfall
from helpers.serving.profile import Profile, Speculation
from helpers.wiring.replay import boundaries, replay

TREE = Speculation(num_steps=3, topk=4, num_draft_tokens=16)
CHAIN = Speculation(num_steps=3, num_draft_tokens=4)
FIVE = Speculation(num_steps=5, num_draft_tokens=6)
#: Accepted: 0, 1, 2 and 3 drafts in as many steps each, so 1.5 a step: .5 of a chain's three, .1 of fifteen.
EVEN = (5, 5, 5, 5)


def load(speculation: Speculation, histogram: tuple[int, ...] = EVEN, prompts: int = 8) -> Load:
    drafts = speculation.num_draft_tokens - 1
    counters = RequestCounters(histogram, drafts * sum(histogram))
    return Load(tuple(Answer(f"p{n}", (1, 2, 3), counters, 1.0) for n in range(prompts)), 3)


def measured(speculation: Speculation, **changes: Any) -> Measurement:
    profile = Profile(name="served", engine="sglang==0.5.9", model="~/m", draft="~/d", speculation=speculation)
    return measurement(profile, load(speculation, **changes))


def test_rounds_pool_a_trees_counts_as_a_single_round_has_them() -> None:
    """Sum of survival / num_steps would be .5 here, and stand beside an interval of .1."""
    axes = {"profile": "tree", "num_steps": 3, "topk": 4, "num_draft_tokens": 16}
    rows = [
        Row(point="tree", status="done", axes=axes, measurement=measured(TREE, histogram=histogram))
        for histogram in (EVEN, (6, 4, 5, 5))
    ]
    for frames in ([sweep_frame([one]) for one in rows], [sweep_frame([one]).drop(columns="proposed") for one in rows]):
        pooled = pooled_frame(frames)
        assert pooled.loc[0, "accept_rate"] == pytest.approx((30 + 29) * 8 / (2 * 300 * 8))
        assert pooled.loc[0, "low"] <= pooled.loc[0, "accept_rate"] <= pooled.loc[0, "high"]
        assert pooled.loc[0, "accept_length"] == pytest.approx(1 + 59 / 40)


def test_rates_of_different_drafts_have_no_difference() -> None:
    with pytest.raises(UsageError, match=r"15 and 3 drafts a verify step") as caught:
        compare("tree", load(TREE), "chain", load(CHAIN))
    assert caught.value.code == "WB-RATES-APART"
    assert "accept lengths" in caught.value.next
    assert compare("one", load(CHAIN), "other", load(CHAIN)).difference == 0


@pytest.mark.parametrize(
    ("one", "topk", "words"),
    [
        (TREE, (4, 1), "15 and 3 drafts a verify step"),
        (FIVE, (1, 1), "5 and 3 drafts a verify step"),
        (CHAIN, (2, 1), "topk 2 and 1"),
    ],
)
def test_a_bench_says_that_it_compares_no_rates(one: Speculation, topk: tuple[int, int], words: str) -> None:
    found = versus("candidate", [load(one)], "chain", [load(CHAIN)], topk=topk)
    assert found.accept_rate is None
    assert found.rates_apart is not None
    assert words in found.rates_apart
    assert f"accept rates not compared: {found.rates_apart}" in versus_text(found)[0]
    alike = versus("candidate", [load(one)], "same", [load(one)], topk=(topk[0], topk[0]))
    assert (alike.rates_apart, alike.accept_rate is None) == (None, False)


def test_a_table_has_no_delta_of_such_rates_and_a_trees_length_its_interval() -> None:
    rows = [measured(TREE).model_copy(update={"name": "tree"}), measured(CHAIN)]
    table = comparison(rows, baseline="served")
    assert math.isnan(table.loc["tree", "accept_rate_delta"])
    assert table.loc["tree", "accept_length_delta"] == pytest.approx(0)
    assert comparison(rows[1:], baseline="served").loc["served", "accept_rate_delta"] == 0
    curve = length_rows([("tree", rows[0])])
    assert curve.loc[0, "low"] <= curve.loc[0, "accept_length"] <= curve.loc[0, "high"]


def test_a_trees_rate_neither_falls_short_of_a_chains_promise_nor_misses_it() -> None:
    """.1 [.1, .1] of fifteen drafts is .5 of three: as much as was promised."""
    tree = measured(TREE)
    found = judge_shortfall(tree, 0.51)
    assert found.outcome == "inconclusive"
    assert "15 drafts a verify step are a tree, of which at most 3 can be accepted" in found.reason
    gain = PairedDifference(first="served", second="old", difference=0.1, ci95=(0.05, 0.15), requests=16)
    assert judge_fix(gain, tree, promised=0.51, equal_text=True).outcome == "inconclusive"
    assert measured(CHAIN).tree is None
    assert judge_shortfall(measured(CHAIN), 0.6).outcome == "confirmed"


def test_a_replay_says_that_the_server_drafted_a_tree(world: World) -> None:
    wiring = boundaries(streams.TAPS)
    source = world.source()
    plain = replay(world.drafter, world.target, source, wiring)
    source.capture.info.launch.update(
        {"speculative_num_steps": 3, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}
    )
    tree = replay(world.drafter, world.target, source, wiring)
    told = [note for note in tree.notes if note not in plain.notes]
    assert len(told) == 1
    assert "drafted a tree (topk 4, 15 drafts a verify step), and a replay follows a chain" in told[0]
    source.capture.info.launch["speculative_eagle_topk"] = 1
    assert replay(world.drafter, world.target, source, wiring).notes == plain.notes
