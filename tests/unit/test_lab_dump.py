"""data/lab/dump is what it says: the lab's target's own states, at the trained boundaries."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from three_formats import check_same_samples

from helpers.paths import DATA
from helpers.tensors.dumps import read_dump
from helpers.wiring.drafter.target import load_target
from remote.lab.recipe.geometry import DrafterShape, TargetShape

LAB = DATA / "lab"


def test_layout() -> None:
    dump = read_dump(LAB / "dump")
    assert (dump.format, dump.slots, dump.hidden_size, dump.dtype) == ("speculators-v1", 3, 192, torch.bfloat16)
    samples = list(dump)
    assert len(samples) == 12
    assert all(len(s.token_ids) == 128 for s in samples)
    for s in samples:
        assert s.loss_mask is not None
        assert s.loss_mask.long().sum() == 32


def test_the_last_state_is_the_targets_before_its_final_norm() -> None:
    weights = load_file(LAB / "target" / "model.safetensors")
    norm, head = weights["model.norm.weight"].float(), weights["lm_head.weight"].float()
    right = total = 0
    for sample in read_dump(LAB / "dump"):
        assert sample.verifier is not None
        assert sample.loss_mask is not None
        x = sample.verifier.float()
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * norm
        said = (normed @ head.T).argmax(-1)
        produced = sample.loss_mask[1:]
        # After the norm every token would have length one per channel, once the norm's weights are taken off.
        assert ((x / norm).pow(2).mean(-1).sqrt() - 1).abs().min() > 0.05
        right += int((said[:-1] == sample.token_ids[1:])[produced].sum())
        total += int(produced.sum())
    assert total == 12 * 32
    assert right / total > 0.99  # greedy text: bf16 may turn a near tie


def test_the_other_formats_hold_the_same_samples() -> None:
    assert check_same_samples(LAB) == 12


@pytest.mark.parametrize(("folder", "shape"), [("target", TargetShape()), ("drafter", DrafterShape())])
def test_the_configs_are_those_that_the_recipe_writes(folder: str, shape: TargetShape | DrafterShape) -> None:
    """To the letter, as somebody who makes the pair again compares files."""
    config = shape.config("bfloat16") if isinstance(shape, TargetShape) else shape.config((1, 4, 8), "bfloat16")
    assert list(json.loads((LAB / folder / "config.json").read_text()).items()) == list(config.items())


def test_the_mirrors_dump_is_of_the_miswired_taps() -> None:
    """The same texts at the boundaries 0, 2 and 5: its second slot is the first one of the lab's own dump."""
    embedding = load_target(LAB / "target").embedding()
    for own, mirror in zip(read_dump(LAB / "dump"), read_dump(LAB / "mirror" / "dump"), strict=True):
        assert torch.equal(own.token_ids, mirror.token_ids)
        rows = mirror.open().rows(slice(None))
        assert torch.equal(rows[:, 0], embedding[own.token_ids])
        assert torch.equal(rows[:, 1:], own.open().rows(slice(None))[:, :2])


def test_the_repository_stays_small() -> None:
    assert sum(f.stat().st_size for f in LAB.rglob("*") if f.is_file()) < 24 * 2**20
