"""What a replay refuses and advises, and its command. .venv/bin/python -m pytest tests/unit/test_replay_refused.py"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import drafters
import pytest
import streams
import torch
from replay_world import H, World

from helpers import cli
from helpers.errors import UsageError
from helpers.wiring.drafter import load_drafter, load_target
from helpers.wiring.replay import boundaries, replay


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
