"""Tensor parallel 8 on the lab's own pair: the text of one rank, replicas on every rank, and nothing left behind.

.venv/bin/python -m pytest tests/lab/test_eight_ranks.py -m full
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from leftovers import gone

from helpers.acceptance import Prompt, run_load
from helpers.acceptance.load_records import first_difference
from helpers.box import Box
from helpers.serving import Profile, serving
from helpers.serving.capture import capture
from helpers.tensors.capture import read_capture


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_eight_ranks(box: Box, profiles: dict[str, Profile], prompts: list[Prompt], tmp_path: Path) -> None:
    loads, run = {}, ""
    for tp in (1, 8):
        profile = profiles["right"].model_copy(update={"tp": tp, "capture": tp == 8})
        with serving(box, profile, progress=False) as served:
            loads[tp] = run_load(served.url, prompts[:3], max_new_tokens=16, progress=False)
            run = served.run.id
            if tp == 8:
                capture(box, served.run, prompts[:2], max_new_tokens=8, out=tmp_path / "taps", progress=False)
    assert first_difference(loads[8], loads[1]) is None
    counted = [[answer.counters.histogram for answer in loads[tp].answers if answer.counters] for tp in (1, 8)]
    assert counted[0] == counted[1]
    assert len(counted[0]) == 3
    taken = read_capture(tmp_path / "taps", verify=True)
    first, *others = taken.ranks
    assert len(others) == 7
    for name in ["feed", *(f"boundary.{b:03d}" for b in range(11))]:
        assert all(torch.equal(other.tensor(name), first.tensor(name)) for other in others), name
    assert gone(f"WORKBOOK_RUN={run}") == []
