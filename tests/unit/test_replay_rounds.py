"""Replay against a server worked out by hand: rounds, drafts one row at a time, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import drafters
import pytest
import streams
import torch
from torch import Tensor

from helpers import cli
from helpers.errors import UsageError
from helpers.tensors.capture import read_capture
from helpers.wiring.drafter import Drafter, Target, load_drafter, load_target
from helpers.wiring.replay import Tap, ablate, attribute, boundaries, replay, search
from helpers.wiring.replay.entropy import Entropies, Sample
from helpers.wiring.replay.projection import project
from helpers.wiring.replay.rounds import follow
from helpers.wiring.replay.run import score
from helpers.wiring.replay.taps import Source

H, PROMPT, NEW = streams.HIDDEN, 6, 22


@dataclass
class World:
    folder: Path
    texts: list[Tensor]
    target: Target
    drafter: Drafter
    naive: drafters.Naive

    def source(self, change: Callable[[streams.Served], None] = lambda _: None) -> Source:
        made = streams.served(self.texts)
        for request in made.info["requests"]:
            request["prompt_tokens"] = PROMPT
        change(made)
        return Source(read_capture(made.write(self.folder / "capture")))

    def taps(self, text: Tensor, wiring: tuple[int, ...]) -> list[list[Tensor]]:
        ladder = streams.stream(text)
        return [[ladder[b][row] for b in wiring] for row in range(len(text))]

    def rounds(self, text: Tensor, wiring: tuple[int, ...], new_tokens: int) -> list[int]:
        """The server's histogram of a request that ended after so many new tokens."""
        taps, histogram, verified = self.taps(text, wiring), [0] * 4, PROMPT
        while verified < PROMPT + new_tokens - 1:
            drafts = [guess for guess, _ in self.naive.drafts(text.tolist(), taps, verified, 3)]
            accepted = 0
            while accepted < 3 and drafts[accepted] == int(text[verified + 1 + accepted]):
                accepted += 1
            histogram[accepted] += 1
            verified += accepted + 1
        return histogram


def write_text(naive: drafters.Naive, seed: int) -> Tensor:
    """A text that the drafter often guesses right when it is fed the boundaries 2, 5 and 9."""
    g = torch.Generator().manual_seed(seed)
    text = torch.randint(0, drafters.VOCABULARY, (PROMPT + 1,), generator=g)
    while len(text) < PROMPT + NEW:
        ladder = streams.stream(text)
        taps = [[ladder[b][row] for b in streams.TAPS] for row in range(len(text))]
        follows = torch.tensor([guess for guess, _ in naive.drafts(text.tolist(), taps, len(text) - 1, 3)])
        follows = follows[: int(torch.randint(0, 4, (1,), generator=g))]
        wrong = torch.randint(0, drafters.VOCABULARY, (1,), generator=g)
        text = torch.cat([text, follows, wrong])
    return text[: PROMPT + NEW]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("replay")
    target = load_target(drafters.write_target(folder / "target", H))
    tensors, config = drafters.weights(H, 3, H), drafters.config(H)
    drafter = load_drafter(drafters.write_drafter(folder / "draft", tensors, config), target)
    naive = drafters.Naive(tensors, config, target.embedding())
    return World(folder, [write_text(naive, seed) for seed in (1, 2, 3)], target, drafter, naive)


@pytest.fixture
def world(written: World, tmp_path: Path) -> World:
    return World(tmp_path, written.texts, written.target, written.drafter, written.naive)


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


def holes(made: streams.Served) -> None:
    rank = made.ranks[0]
    keep = torch.arange(len(rank["feed_rows"])) != 4
    made.ranks[0] |= {"feed": rank["feed"][keep] * 2, "feed_rows": rank["feed_rows"][keep]}


def cached(made: streams.Served) -> None:
    made.ranks[0]["positions"][:5] += 3


def unanswered(made: streams.Served) -> None:
    for request in made.info["requests"]:
        request["prompt_tokens"] = request["length"]


def brief(made: streams.Served) -> None:
    for request in made.info["requests"]:
        request["prompt_tokens"] = request["length"] - 2


def no_feed(made: streams.Served) -> None:
    del made.ranks[0]["feed"], made.ranks[0]["feed_rows"]


@pytest.mark.parametrize(
    ("change", "taps", "code"),
    [
        (lambda _: None, (2, 5), "WB-REPLAY-TAPS"),
        (lambda _: None, (2, 5, 11), "WB-REPLAY-TAPS"),
        (no_feed, None, "WB-REPLAY-TAPS"),
        (holes, None, "WB-REPLAY-ROWS"),
        (cached, (2, 5, 9), "WB-REPLAY-ROWS"),
        (unanswered, (2, 5, 9), "WB-REPLAY-SHORT"),
        (brief, (2, 5, 9), "WB-REPLAY-SHORT"),
    ],
)
def test_what_is_refused(
    world: World, change: Callable[[streams.Served], None], taps: tuple[int, ...] | None, code: str
) -> None:
    source = world.source(change)
    with pytest.raises(UsageError) as caught:
        replay(world.drafter, world.target, source, source.served() if taps is None else boundaries(taps))
    assert caught.value.code == code


def test_no_capture_is_advised_that_would_hold_no_more(world: World) -> None:
    def advice(*taps: int, change: Callable[[streams.Served], None] = lambda _: None) -> str:
        with pytest.raises(UsageError, match="WB-REPLAY-TAPS") as caught:
            replay(world.drafter, world.target, world.source(change), boundaries(taps))
        return caught.value.next

    def less(made: streams.Served) -> None:
        del made.ranks[0]["boundary.005"]

    assert advice(2, 5, 11) == "the model has 10 layers, and so the boundaries 0 to 10: give others than [11]"
    assert advice(2, 5) == "give 3 taps, such as --taps 1,2,3"
    assert advice(2, 5, 9, change=less).startswith("capture the whole ladder")


def test_models_that_do_not_belong_together(tmp_path: Path, world: World) -> None:
    narrow = drafters.write_drafter(
        tmp_path / "narrow", drafters.weights(H, 3, 10), drafters.config(H, target_hidden_size=10)
    )
    with pytest.raises(UsageError, match="WB-REPLAY-MODELS"):
        replay(load_drafter(narrow, world.target), world.target, world.source(), boundaries(streams.TAPS))
    other = load_target(drafters.write_target(tmp_path / "other", 16))
    with pytest.raises(UsageError, match="WB-DRAFT-WEIGHTS"):
        load_drafter(narrow, other)


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    return int(ended.value.code or 0), capsys.readouterr().out


def test_the_command(written: World, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.source()
    base = ["replay", "--draft", str(written.folder / "draft"), "--target", str(written.folder / "target")]
    base += ["--capture", str(world.folder / "capture")]
    status, out = run([*base, "--taps", "0,2,5", "--new-tokens", "18", "--search", "--ablate", "--json"], capsys)
    found = json.loads(out)
    assert status == 0
    keys = {
        "accept_length",
        "accept_rate",
        "ci95",
        "survival",
        "histogram",
        "verify_steps",
        "requests",
        "cross_entropy",
    }
    assert keys <= found.keys()
    assert [r["histogram"] for r in found["requests"]] == [world.rounds(t, (0, 2, 5), 18) for t in world.texts]
    assert {"attribution", "search", "ablation"} <= found.keys()
    served = [sum(r) for r in zip(*(world.rounds(t, streams.TAPS, 18) for t in world.texts), strict=True)]
    assert found["served"]["accept_rate"] == pytest.approx(sum(i * n for i, n in enumerate(served)) / 3 / sum(served))
    assert found["served"]["taps"] == [2, 5, 9]
    assert found["served"]["difference"] == pytest.approx(found["accept_rate"] - found["served"]["accept_rate"])
    best = found["search"]["ranking"][0]["taps"]
    assert found["search"]["aux_layer_ids"] == (
        [b - 1 for b in best] if best == sorted(best) and best[-1] < 10 else None
    )
    assert any(one["change"] == "right" for one in found["ablation"]), "the search's best is what is held to be right"
    status, out = run([*base, "--steps", "2", "--search", "--ablate", "--right", "2,5,9"], capsys)
    assert status == 0
    assert "taps 2,5,9: accept rate" in out
    status, out = run([*base, "--taps", "a,b", "--json"], capsys)
    assert (status, json.loads(out)["error"]["code"]) == (2, "WB-USAGE")
    status, out = run([*base, "--taps", "2,5,11", "--json"], capsys)
    assert (status, json.loads(out)["error"]["code"]) == (2, "WB-REPLAY-TAPS")
