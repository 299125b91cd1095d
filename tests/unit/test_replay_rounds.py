"""Replay against a server worked out by hand: rounds, and drafts one row at a time."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import drafters
import pytest
import streams
import torch
from replay_world import NEW, PROMPT, H, World

from helpers.errors import UsageError
from helpers.wiring.drafter import load_drafter
from helpers.wiring.replay import Tap, ablate, attribute, boundaries, replay, search, versus
from helpers.wiring.replay.entropy import Entropies, Sample
from helpers.wiring.replay.projection import project
from helpers.wiring.replay.rounds import follow
from helpers.wiring.replay.run import score

MENDED_AND_SERVED = boundaries(streams.TAPS), boundaries((0, 2, 5))


@pytest.mark.parametrize("wiring", [(2, 5, 9), (0, 2, 5), (9, 5, 2)])
def test_equal_to_a_server_worked_out_by_hand(world: World, wiring: tuple[int, ...]) -> None:
    scored = NEW - 4
    result = replay(world.drafter, world.target, world.source(), boundaries(wiring), new_tokens=scored)
    expected = [world.rounds(text, wiring, scored) for text in world.texts]
    assert [r.histogram for r in result.requests] == expected
    assert [r.id for r in result.requests] == ["r0", "r1", "r2"]
    pooled = torch.tensor(expected).sum(0)
    correct, steps = int((pooled * torch.arange(4)).sum()), int(pooled.sum())
    assert (result.histogram, result.verify_steps) == (pooled.tolist(), steps)
    assert result.accept_rate == pytest.approx(correct / (3 * steps))
    assert result.accept_length == pytest.approx(1 + correct / steps)
    assert result.survival == pytest.approx([float(pooled[k:].sum()) / steps for k in (1, 2, 3)])
    assert result.ci95[0] <= result.accept_rate <= result.ci95[1]
    if wiring == streams.TAPS:
        assert result.accept_rate > 0.3, "the text was written so that this wiring is often right"
        assert sum(1 for count in pooled if count) == 4


def test_the_feed_is_what_was_served_and_is_named(world: World) -> None:
    source = world.source()
    assert source.served() == boundaries(streams.TAPS)
    unnamed = [Tap("feed", slot) for slot in range(3)]
    fed = replay(world.drafter, world.target, source, unnamed)
    known = replay(world.drafter, world.target, source, boundaries(streams.TAPS))
    assert fed.taps == ["feed[0]", "feed[1]", "feed[2]"]
    assert known.taps == [2, 5, 9]
    assert [r.histogram for r in fed.requests] == [r.histogram for r in known.requests]
    assert fed.cross_entropy == pytest.approx(known.cross_entropy)
    assert fed.rows == sum(len(text) - 2 for text in world.texts)

    def scale(made: streams.Served) -> None:
        made.ranks[0]["feed"][:, :H] *= 2

    world.folder = world.folder / "scaled"
    assert world.source(scale).served() == (Tap("feed", 0), *boundaries([5, 9]))


def test_rounds_that_the_text_does_not_decide_are_left_out_by_where_they_start(world: World) -> None:
    result = replay(world.drafter, world.target, world.source(), boundaries(streams.TAPS))
    undecided = 0
    for text, request in zip(world.texts, result.requests, strict=True):
        covered = 1 + sum((i + 1) * count for i, count in enumerate(request.histogram))
        assert request.histogram == world.rounds(text, streams.TAPS, covered)
        reached = PROMPT + covered - 1
        assert reached + 3 > len(text) - 1
        undecided += reached < len(text) - 1
    assert result.rounds_left_out == undecided


def test_cross_entropy_is_the_targets_own_words(world: World) -> None:
    result = replay(world.drafter, world.target, world.source(), boundaries(streams.TAPS))
    total, rows = 0.0, 0
    for text in world.texts:
        last = world.target.final_norm(streams.stream(text)[streams.LAYERS])
        wanted = world.target.logits(last).softmax(-1)[:, world.drafter.to_target]
        for row in range(1, len(text) - 1):
            _, logits = world.naive.drafts(text.tolist(), world.taps(text, streams.TAPS), row + 1, 1)[0]
            total -= float((wanted[row + 1] * logits.log_softmax(-1)).sum())
            rows += 1
    assert result.rows == rows
    assert result.cross_entropy == pytest.approx(total / rows, rel=1e-5)

    def drop_last(made: streams.Served) -> None:
        del made.ranks[0][f"boundary.{streams.LAYERS:03d}"]

    def keep_normed(made: streams.Served) -> None:
        made.ranks[0]["normed"] = world.target.final_norm(made.ranks[0].pop(f"boundary.{streams.LAYERS:03d}"))

    world.folder = world.folder / "normed"
    assert replay(
        world.drafter, world.target, world.source(keep_normed), boundaries(streams.TAPS)
    ).cross_entropy == pytest.approx(total / rows, rel=1e-5)
    world.folder = world.folder / "without"
    assert replay(world.drafter, world.target, world.source(drop_last), boundaries(streams.TAPS)).cross_entropy is None


def test_an_answer_that_decides_no_round_is_no_request_of_the_rate(world: World) -> None:
    """One that ended after two tokens: its prompt's rows are judged, but nothing was drafted from them."""
    alone = versus(world.drafter, world.target, world.source(), *MENDED_AND_SERVED)
    world.folder = world.folder / "short"
    world.texts = [*world.texts, world.texts[0][: PROMPT + 2]]
    source = world.source()
    found = versus(world.drafter, world.target, source, *MENDED_AND_SERVED)
    assert (found.requests, alone.requests) == (3, 3)
    assert found.difference_ci95 == alone.difference_ci95
    result = replay(world.drafter, world.target, source, MENDED_AND_SERVED[0])
    assert [sum(r.histogram) for r in result.requests][-1] == 0
    assert result.notes[-1].startswith("over 3 requests")


def test_batches_do_not_matter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.texts = [world.texts[0], world.texts[1][:17], world.texts[2][:20]]
    source = world.source()
    together = score(world.drafter, world.target, source, boundaries((1, 4, 8)))
    monkeypatch.setattr("helpers.wiring.replay.run.BATCH_ROWS", 1)
    alone = score(world.drafter, world.target, source, boundaries((1, 4, 8)))
    assert [s.histogram for s in together] == [s.histogram for s in alone]
    assert [s.cross_entropy for s in together] == pytest.approx([s.cross_entropy for s in alone], rel=1e-5)


def test_follow() -> None:
    never, always = [[False] * 20] * 3, [[True] * 20] * 3
    assert follow(never, prompt_tokens=4, last=12, new_tokens=6).histogram == (5, 0, 0, 0)
    assert follow(always, prompt_tokens=4, last=12, new_tokens=6).histogram == (0, 0, 0, 2)
    assert follow(always, prompt_tokens=4, last=12, new_tokens=1).histogram == (0, 0, 0, 0)
    # A round that failed before the text's end is decided; one that did not fail is not.
    assert follow(never, prompt_tokens=4, last=9, new_tokens=6).histogram == (5, 0, 0, 0)
    with pytest.raises(UsageError, match="WB-REPLAY-SHORT"):
        follow(always, prompt_tokens=4, last=10, new_tokens=6, request="r7")
    # Without an end, only rounds whose tokens are all known count: 4, 5, 6 start early enough for 9 to decide them.
    assert follow(never, prompt_tokens=4, last=9) == follow(never, prompt_tokens=4, last=9)
    assert follow(never, prompt_tokens=4, last=9).histogram == (3, 0, 0, 0)
    assert follow(never, prompt_tokens=4, last=9).left_out


def test_the_search_ranks_all_and_says_what_it_left_out(world: World) -> None:
    source = world.source()
    found = search(world.drafter, world.target, source, start=(0, 2, 5))
    assert (found.tried, found.candidates, found.not_tried) == (165, 165, None)
    brute = {}
    for taps in combinations(range(streams.LAYERS + 1), 3):
        scores = score(world.drafter, world.target, source, boundaries(taps), steps=1)
        brute[taps] = sum(s.cross_entropy or 0 for s in scores) / sum(s.rows for s in scores)
    assert found.sample_rows == sum(len(text) - 2 for text in world.texts)
    ascending = [(tuple(taps), value) for taps, value in found.scores if tuple(taps) in brute]
    assert [value for _, value in ascending] == pytest.approx(sorted(brute.values()), rel=1e-5)
    for taps, value in ascending:
        assert value == pytest.approx(brute[taps], rel=1e-5)
    first = found.ranking[0]
    assert (first.difference, first.ci95, first.within_chance) == (0.0, (0.0, 0.0), True)
    assert [r.cross_entropy for r in found.ranking] == sorted(r.cross_entropy for r in found.ranking)
    assert all(r.reachable == (r.taps == sorted(r.taps)) for r in found.ranking)
    short = search(world.drafter, world.target, source, limit_s=0.02)
    assert short.tried < short.candidates
    assert short.not_tried is not None
    assert str(short.candidates - short.tried) in short.not_tried
    assert len(short.ranking) >= 1


@pytest.mark.parametrize("settings", [{}, {"fc_norm": True}, {"norm_before_fc": True}])
def test_a_projected_ladder_gives_the_same_states(tmp_path: Path, world: World, settings: dict[str, Any]) -> None:
    tensors = drafters.weights(H, 3, H) | {"fc.bias": torch.randn(H)}
    if "fc_norm" in settings:
        tensors |= {f"fc_norm.{i}.weight": torch.rand(H) + 0.5 for i in range(3)}
    if "norm_before_fc" in settings:
        tensors["input_norm.weight"] = torch.rand(3 * H) + 0.5
    drafter = load_drafter(
        drafters.write_drafter(tmp_path / "d", tensors, drafters.config(H, **settings)), world.target
    )
    source = world.source()
    text = source.texts[1]
    state = project(drafter, source, [text], 9).state((7, 3, 4))
    expected = drafter.fuse(source.taps(text, boundaries((7, 3, 4)))[None, :9])
    torch.testing.assert_close(state, expected, rtol=1e-4, atol=1e-3)
    judged = Entropies.prepare(drafter, world.target, source)
    assert judged is not None
    assert (judged.requests, judged.rows) == (3, sum(len(t) - 2 for t in world.texts))


def test_texts_of_unequal_length_make_one_sample(world: World) -> None:
    """The shape checks look at one item of a list at random, so that a wrong annotation shows only sometimes."""
    source = world.source()
    ladder = project(world.drafter, source, source.texts[:1], 4)
    ragged = [torch.zeros(rows, 5) for rows in (3, 2)]
    for _ in range(32):
        assert Sample(ladder, torch.zeros(1, 3, dtype=torch.int64), ragged).wanted is ragged


def test_a_ladder_too_short_to_search(world: World) -> None:
    def cut(made: streams.Served) -> None:
        for b in range(3, streams.LAYERS):
            del made.ranks[0][f"boundary.{b:03d}"]
        del made.ranks[0][f"boundary.{streams.LAYERS:03d}"]

    with pytest.raises(UsageError, match="WB-REPLAY-LADDER"):
        search(world.drafter, world.target, world.source(cut))


def test_the_ablation_is_a_replay_with_one_slot_changed(world: World) -> None:
    source = world.source()
    before = replay(world.drafter, world.target, source, boundaries((0, 5, 9)))
    found = {
        (a.slot, a.change): a
        for a in ablate(world.drafter, world.target, source, boundaries((0, 5, 9)), right=(2, 5, 9))
    }
    assert set(found) == {
        *((0, change) for change in ("zeros", "later", "right")),
        *((slot, change) for slot in (1, 2) for change in ("zeros", "embedding", "earlier", "later")),
    }
    for key, taps in {(0, "right"): (2, 5, 9), (1, "earlier"): (0, 4, 9), (2, "embedding"): (0, 5, 0)}.items():
        after = replay(world.drafter, world.target, source, boundaries(taps))
        assert found[key].taps == list(taps)
        assert found[key].accept_rate == after.accept_rate
        assert found[key].difference == pytest.approx(after.accept_rate - before.accept_rate)
        assert found[key].ci95[0] <= found[key].difference <= found[key].ci95[1]
        assert after.cross_entropy is not None
        assert before.cross_entropy is not None
        assert found[key].cross_entropy_difference == pytest.approx(
            after.cross_entropy - before.cross_entropy, abs=1e-6
        )
    assert found[0, "right"].difference > 0
    assert found[0, "zeros"].taps == ["zeros", 5, 9]


def test_attribution(world: World) -> None:
    shares = attribute(world.drafter, world.source(), [Tap("boundary", 2), Tap("zeros"), Tap("boundary", 9)])
    assert [s.tap for s in shares] == ["2", "zeros", "9"]
    assert sum(s.share for s in shares) == pytest.approx(1)
    assert (shares[1].contribution, shares[1].product) == (0, 0)
    rows = torch.cat([streams.stream(text)[9][1:] for text in world.texts])
    block = world.drafter.fc[:, 2 * H :]
    assert shares[2].fc_norm == pytest.approx(float(block.norm()))
    assert shares[2].input_norm == pytest.approx(float(rows.norm(dim=1).mean()), rel=1e-5)
    assert shares[2].contribution == pytest.approx(float((rows @ block.T).norm(dim=1).mean()), rel=1e-5)
