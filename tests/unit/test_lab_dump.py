"""data/lab/dump is what it says: the lab's target's own states, at the trained boundaries."""

from __future__ import annotations

import torch
from safetensors.torch import load_file

from helpers.paths import DATA
from helpers.tensors.dumps import read_dump

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


def test_the_repository_stays_small() -> None:
    assert sum(f.stat().st_size for f in LAB.rglob("*") if f.is_file()) < 24 * 2**20
