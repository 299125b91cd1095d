"""The order that fc wants: what is told, and when nothing is. .venv/bin/python -m pytest tests/unit/test_fc_order.py"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orders
import pytest
import torch

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.diagnosis import FEED_WRONG, NOT_COMPARED, Diagnosis, diagnose
from helpers.wiring.drafter import load_drafter, load_target
from helpers.wiring.fc_order import FcOrder, fc_order, look_at_order, mended, undecided
from helpers.wiring.replay import boundaries, replay
from helpers.wiring.replay.taps import Source


def look(world: orders.World) -> FcOrder | str:
    return look_at_order(read_capture(world.served.write(world.folder / "c")), world.drafter, world.target)


def diagnosis(world: orders.World, *, models: bool = True) -> Diagnosis:
    capture = read_capture(world.served.write(world.folder / "c"))
    given = {"draft": world.drafter, "target": world.target} if models else {}
    return diagnose(capture, read_dump(world.dump), run_graphs=False, **given)


def open_questions(found: Diagnosis) -> list[tuple[str, str]]:
    return [(one.code, one.why) for one in found.undecided]


def test_the_entropies_are_those_of_replay(tmp_path: Path) -> None:
    world = orders.synthetic(1, tmp_path)
    found = look(world)
    assert isinstance(found, FcOrder)
    target = load_target(world.target)
    drafter = load_drafter(world.drafter, target)
    source = Source(read_capture(tmp_path / "c"))
    for order in ((0, 1, 2), (2, 0, 1)):
        result = replay(drafter, target, source, boundaries([(2, 5, 9)[slot] for slot in order]), steps=1)
        assert found.cross_entropy[order] == pytest.approx(result.cross_entropy, rel=1e-5)
        assert found.rows == result.rows


def test_what_the_finding_says_and_how_it_is_mended(tmp_path: Path) -> None:
    world = orders.synthetic(1, tmp_path)
    world.permute_fc()
    found = diagnosis(world)
    assert found.codes() == ["fc-order"]
    evidence = found.findings[0].evidence
    assert tuple(evidence["order"]) == world.order
    assert len(evidence["cross_entropy"]) == 6
    assert evidence["cross_entropy"][0]["order"] == list(world.order)
    assert (evidence["requests"], evidence["rows"]) == (orders.TEXTS, sum(len(t) - 2 for t in world.served.texts))
    assert found.fix is not None
    assert (found.fix.aux_layer_ids, found.fix.launch) == (None, [])
    blocks = mended(world.order)
    assert str(blocks) in found.fix.note
    # Done as the note says, it is mended; and that the order was looked at is said.
    world.folder = tmp_path / "again"
    world.change_drafter(lambda fc: torch.cat([fc.chunk(3, dim=1)[i] for i in blocks], dim=1))
    again = diagnosis(world)
    assert again.codes() == ["features-match"]
    assert again.findings[0].evidence["fc_order"]["order"] == [0, 1, 2]
    assert "of 6 it has the lowest step-1 cross-entropy" in again.findings[0].summary


def test_few_requests_decide_nothing(tmp_path: Path) -> None:
    world = orders.synthetic(1, tmp_path)
    world.permute_fc()
    world.keep_requests(6)
    found = diagnosis(world)
    assert found.codes() == ["features-match"]
    assert "fc_order" not in found.findings[0].evidence
    ((code, why),) = open_questions(found)
    assert (code, why.split(" requests")[0]) == ("fc-order", "6")


def test_an_order_that_only_a_few_long_texts_want_is_no_finding(tmp_path: Path) -> None:
    """Every request says so where fc is permuted; the same pooled figures out of fewer of them are chance."""
    world = orders.synthetic(1, tmp_path)
    world.permute_fc()
    found = look(world)
    assert isinstance(found, FcOrder)
    assert (found.wins, found.requests) == (orders.TEXTS, orders.TEXTS)
    assert found.chance == pytest.approx(5 / 256)
    assert found.evidence()["requests_won"] == orders.TEXTS
    (finding,) = fc_order(found)
    assert f"in {orders.TEXTS} of which it is lower" in finding.summary
    one_says_otherwise = replace(found, wins=orders.TEXTS - 1)
    assert one_says_otherwise.ci95[0] > 0
    assert one_says_otherwise.chance == pytest.approx(5 * 9 / 256)
    assert fc_order(one_says_otherwise) == []
    assert "in 7 of which it is better" in str(undecided(one_says_otherwise))


def test_seven_requests_are_too_few_for_an_error(tmp_path: Path) -> None:
    """Of three slots, five other orders are no chance with seven requests; the interval over seven is too narrow."""
    world = orders.synthetic(1, tmp_path)
    world.permute_fc()
    world.keep_requests(7)
    assert diagnosis(world).codes() == ["features-match"]
    assert str(look(world)).startswith("7 requests were fed from their first token on; with fewer than 8 ")


def test_what_is_not_given_is_said(tmp_path: Path) -> None:
    world = orders.synthetic(1, tmp_path)
    assert open_questions(diagnosis(world, models=False)) == [
        ("fc-order", "it takes the drafter and the target: --draft and --target")
    ]
    normed = world.served.ranks[0].pop("normed")
    del world.served.ranks[0]["boundary.010"]  # which would serve as well, as it does for the lab's captures
    assert "last state" in str(look(world))
    world.served.ranks[0]["normed"] = normed
    assert isinstance(look(world), FcOrder)
    (world.target / "config.json").unlink()
    assert str(look(world)).startswith("WB-MODEL-CONFIG: ")


def test_a_feed_that_is_wrong_or_broken_is_not_judged(tmp_path: Path) -> None:
    world = orders.synthetic(1, tmp_path)
    world.permute_fc()
    world.served.ranks[0]["feed"][5, 7] = float("nan")
    found = diagnosis(world)
    assert found.codes() == ["non-finite"]
    assert [(code, "non-finite" in why) for code, why in open_questions(found)] == [("fc-order", True)]


def test_where_the_feed_is_wrong_the_order_is_said_to_be_open(tmp_path: Path) -> None:
    """Slots that are swapped, too few slots, and nothing that could be compared: each with its own reason."""
    world = orders.synthetic(1, tmp_path)
    feed = world.served.ranks[0]["feed"]
    world.served.ranks[0]["feed"] = torch.cat([feed.chunk(3, dim=1)[slot] for slot in (1, 0, 2)], dim=1)
    for models in (True, False):
        swapped = diagnosis(world, models=models)
        assert swapped.codes() == ["slot-permuted"]
        assert open_questions(swapped) == [("fc-order", FEED_WRONG)]
    world.served.ranks[0]["feed"] = torch.cat(feed.chunk(3, dim=1)[:2], dim=1)
    narrow = diagnosis(world)
    assert narrow.codes() == ["slot-count"]
    assert open_questions(narrow) == [("fc-order", FEED_WRONG)]
    del world.served.ranks[0]["feed"]
    assert open_questions(diagnosis(world)) == [("fc-order", NOT_COMPARED)]


def test_no_use_of_the_feed_and_next_to_no_difference_are_no_findings() -> None:
    def judged(
        difference: float, low: float, gain: float, gain_low: float, *, requests: int = 10, wins: int | None = None
    ) -> FcOrder:
        return FcOrder(
            order=(1, 0),
            cross_entropy={(0, 1): 3.0 + difference, (1, 0): 3.0},
            other_rows=3.0 + gain,
            constant=9.0,
            difference=difference,
            ci95=(low, 2 * difference),
            gain=gain,
            gain_ci95=(gain_low, 2 * gain),
            rows=100,
            requests=requests,
            wins=requests if wins is None else wins,
        )

    assert [f.code for f in fc_order(judged(0.5, 0.3, 1.0, 0.5))] == ["fc-order"]
    for told in (
        judged(0.5, -0.1, 1.0, 0.5),  # within chance
        judged(0.04, 0.02, 1.0, 0.5),  # next to nothing
        judged(0.5, 0.3, 1.0, -0.1),  # no use of the feed beyond chance
        judged(0.5, 0.3, 0.1, 0.05),  # next to no use of it
        judged(0.5, 0.3, 1.0, 0.5, wins=8),  # two of ten requests say otherwise: a coin does that once in eighteen
        judged(0.5, 0.3, 1.0, 0.5, requests=7),  # too few for an interval, though all of them say so
    ):
        assert fc_order(told) == []
        assert undecided(told) is not None
