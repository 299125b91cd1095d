"""The samples of one training dump in the three formats that trainers write, held against each other."""

from __future__ import annotations

from pathlib import Path

import torch

from helpers.tensors.dumps import read_dump
from helpers.wiring.drafter import load_target


def check_same_samples(pair: Path) -> int:
    """Asserts that all three hold the same tokens, slots and verifier states; gives how many samples they have.

    SpecForge stores the verifier's state behind the target's final norm; the others before it.
    """
    target = load_target(pair / "target")
    old, now, forge = (read_dump(pair / name, slots=3) for name in ("dump", "dump-speculators", "dump-specforge"))
    assert (old.format, now.format, forge.format) == ("speculators-v1", "speculators", "specforge")
    for one, two, three in zip(old, now, forge, strict=True):
        assert torch.equal(one.token_ids, two.token_ids)
        assert torch.equal(one.token_ids, three.token_ids)
        rows = one.open().rows(slice(None))
        assert torch.equal(rows, two.open().rows(slice(None)))
        assert torch.equal(rows, three.open().rows(slice(None)))
        assert one.verifier is not None
        assert two.verifier is not None
        assert three.verifier is not None
        assert torch.equal(one.verifier, two.verifier)
        assert torch.equal(target.final_norm(one.verifier).bfloat16(), three.verifier)
    return len(old)
