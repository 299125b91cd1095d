"""Constants on single channels, which no cosine shows. .venv/bin/python -m pytest tests/unit/test_channels.py"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import streams
import torch

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.tensors.statistics import agreed_factor
from helpers.wiring.channels import constants, rounding
from helpers.wiring.diagnosis import Diagnosis, diagnose

H, OUTLIER = streams.HIDDEN, 3


def run(
    tmp_path: Path, channels: dict[int, float], *, slot: int = 1, ladder: bool = True, trained: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Diagnosis:  # fmt: skip
    texts = streams.texts()
    made = streams.served(texts)
    rank = made.ranks[0]
    add = torch.zeros(H)
    for channel, size in channels.items():
        add[channel] = size
    if not trained:
        rank["feed"][:, slot * H : (slot + 1) * H] += add
    if not ladder:
        made.ranks[0] = rank = {k: v for k, v in rank.items() if not k.startswith("boundary")}
    for name in [name for name in rank if name.startswith(("boundary", "feed")) and name != "feed_rows"]:
        rank[name] = rank[name].to(dtype)
    dump = streams.write_dump(tmp_path / "d", texts)
    if trained:
        for path in dump.glob("*.pt"):
            stored = torch.load(path, weights_only=True)
            stored["hidden_states"][slot] = (stored["hidden_states"][slot].float() + add).bfloat16()
            torch.save(stored, path)
    return diagnose(read_capture(made.write(tmp_path / "c")), read_dump(dump))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ladder", [True, False])
def test_one_channel(tmp_path: Path, dtype: torch.dtype, ladder: bool) -> None:
    found = run(tmp_path, {20: 1.0}, dtype=dtype, ladder=ladder)
    assert [(f.code, f.slot) for f in found.findings] == [("slot-unmatched", 1)]
    evidence = found.findings[0].evidence
    assert (evidence["side"], evidence["count"]) == ("served", 1)
    assert evidence["channels"][0]["channel"] == 20
    assert evidence["channels"][0]["size"] == pytest.approx(1.0, abs=0.05)
    assert evidence["against"] == ("boundary 5" if ladder else "what it was trained on (slot 1)")
    assert evidence["equal_rows"] == 0
    assert found.verdict == "mismatch"


def test_an_outlier_channel_is_no_factor(tmp_path: Path) -> None:
    """The channel makes up most of the length, so that a constant on it looks like a factor on the whole."""
    found = run(tmp_path, {OUTLIER: 1.0})
    assert [(f.code, f.slot) for f in found.findings] == [("slot-unmatched", 1)]
    assert found.findings[0].evidence["channels"][0]["channel"] == OUTLIER


def test_several_channels_largest_first(tmp_path: Path) -> None:
    found = run(tmp_path, {30: -0.6, 31: 0.9, 40: 0.4}, slot=2)
    evidence = found.findings[0].evidence
    assert [one["channel"] for one in evidence["channels"]] == [31, 30, 40]
    assert [one["size"] for one in evidence["channels"]] == pytest.approx([0.9, -0.6, 0.4], abs=0.01)


def test_the_trained_side_is_told_as_such(tmp_path: Path) -> None:
    found = run(tmp_path, {20: 1.0}, trained=True)
    assert [(f.code, f.slot, f.evidence["side"]) for f in found.findings] == [("slot-unmatched", 1, "trained")]


@pytest.mark.parametrize("seed", range(20))
def test_rounding_and_other_kernels_are_no_constants(seed: int) -> None:
    """bf16 on one side, and noise of 2% beside it; large channels that hardly change round alike at every token."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 4096, generator=generator)
    x[:, :16] += 60 * torch.randn(16, generator=generator)
    near = (x * (1 + 0.02 * torch.randn(x.shape, generator=generator))).bfloat16().float()
    assert constants(near, x, rounding(torch.bfloat16)) == []
    assert constants(x.bfloat16().float(), x, rounding(torch.bfloat16)) == []
    assert constants(x * (1 + 1e-6), x, rounding(torch.float32)) == []
    assert constants(1.003 * x, x, rounding(torch.float32)) == [], "a factor on the whole is another matter"
    off = x.clone()
    off[:, 100] += 1
    assert [channel for channel, _ in constants(off.bfloat16().float(), x, rounding(torch.bfloat16))] == [100]


def test_few_tokens_decide_nothing() -> None:
    x = torch.randn(15, 8)
    assert constants(x + 1, x, rounding(torch.float32)) == []


def changed(tmp_path: Path, edit: Callable[[torch.Tensor], torch.Tensor], *, ladder: bool, shift: int = 0) -> Diagnosis:
    """Slot 1, of which training's engine had other values; token 7 of each text is massive on both sides."""
    texts = streams.texts()
    made = streams.served(texts)
    rank = made.ranks[0]
    sinks = torch.tensor([7 + request["start"] for request in made.info["requests"]])
    for name in [name for name in rank if name.startswith("boundary.") and name > "boundary.002"]:
        rank[name][sinks] *= 30
    rank["feed"] = torch.cat([rank[f"boundary.{b:03d}"] for b in streams.TAPS], dim=1)[rank["feed_rows"]]
    if shift:
        rank["feed"] = rank["feed"].roll(-shift, dims=0)
    if not ladder:
        made.ranks[0] = {k: v for k, v in rank.items() if not k.startswith("boundary")}
    dump = streams.write_dump(tmp_path / "d", texts)
    for path in dump.glob("*.pt"):
        stored = torch.load(path, weights_only=True)
        states = [x.float() for x in stored["hidden_states"]]
        for x in states[1:]:
            x[7] *= 30
        stored["hidden_states"] = [x.bfloat16() for x in (states[0], edit(states[1]), *states[2:])]
        torch.save(stored, path)
    return diagnose(read_capture(made.write(tmp_path / "c")), read_dump(dump))


def outliers(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, [OUTLIER, 17]] *= 1.01
    return x


def sink(size: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def edit(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[7] *= size
        return x

    return edit


@pytest.mark.parametrize("ladder", [True, False])
@pytest.mark.parametrize("edit", [outliers, sink(1.02)])
def test_what_a_few_channels_or_massive_tokens_differ_by_is_no_factor(
    tmp_path: Path, edit: Callable[[torch.Tensor], torch.Tensor], ladder: bool
) -> None:
    """A percent of two channels that are most of the length; 2% of one token that outweighs all others."""
    assert changed(tmp_path, edit, ladder=ladder).codes() == ["features-match"]


@pytest.mark.parametrize("ladder", [True, False])
@pytest.mark.parametrize("scale", [0.99, 1.01, 0.5])
def test_a_factor_on_all_channels_is_one(tmp_path: Path, scale: float, ladder: bool) -> None:
    found = changed(tmp_path, lambda x: scale * x, ladder=ladder)
    assert [(f.code, f.slot) for f in found.findings] == [("scaled", 1)]
    assert found.findings[0].evidence["scale"] == pytest.approx(1 / scale, rel=0.001)


def test_on_shifted_rows_a_few_channels_are_no_factor_either(tmp_path: Path) -> None:
    assert changed(tmp_path, outliers, ladder=True, shift=1).codes() == ["token-shift"]


@pytest.mark.parametrize("noisy", ["slot", "tap"])
def test_noise_on_one_side_is_no_factor(noisy: str) -> None:
    """A tenth of noise makes the least-squares factor a percent smaller, or its inverse."""
    generator = torch.Generator().manual_seed(0)
    t = torch.randn(200, 256, generator=generator)
    near = t + 0.1 * torch.randn(t.shape, generator=generator)
    x, t = (near, t) if noisy == "slot" else (t, near)
    assert agreed_factor(x, t, 0.005) == 1
    assert agreed_factor(1.1 * x, t, 0.005) == pytest.approx(1.1, rel=0.01)
    assert agreed_factor(torch.zeros(9, 4), torch.zeros(9, 4), 0.005) == 1
    assert agreed_factor(t * torch.tensor([1.02, 0.98] * 128), t, 0.005) == 1, "channels that do not agree"
