"""Faults of the real engine, each diagnosed from its own server's capture: with ids, with fc, with a fused all-reduce.

.venv/bin/python -m pytest tests/lab/test_live_diagnosis.py            one server
.venv/bin/python -m pytest tests/lab/test_live_diagnosis.py -m full    every fault, on one rank and on two
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.acceptance import Prompt
from helpers.box import Box
from helpers.commands.wiring import flags_of
from helpers.paths import DATA
from helpers.serving import Profile, serving
from helpers.serving.capture import capture
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose

LAB = DATA / "lab"
FUSED = "--enable-flashinfer-allreduce-fusion"


@pytest.fixture(scope="module")
def samples() -> list[Prompt]:
    return [Prompt(f"s{i}", tuple(sample.token_ids.tolist())) for i, sample in enumerate(read_dump(LAB / "dump"))]


@dataclass(frozen=True)
class Fault:
    """How a server is made to have it, and what is to be said: findings (code, slot), fix and boundaries fed."""

    profile: str
    findings: list[tuple[str, int | None]]
    ids: list[int] | None = None
    fed: tuple[int, ...] = (2, 5, 9)
    change: dict[str, Any] = field(default_factory=dict)
    fused: bool = False


PROMPTS_ALONE = ["features-match"]  # the samples are sent as a whole: no row of an answer can be compared
CASE: list[tuple[str, int | None]] = [("slot-embedding", 0), ("slot-wrong", 1), ("slot-wrong", 2)]
FAULTS = {
    "right": Fault("right", [("features-match", None)]),
    "miswired": Fault("miswired", CASE, [1, 4, 8], (0, 2, 5)),
    "off by one": Fault("off-by-one", [("slot-offset", None)], [1, 4, 8], (1, 4, 8)),
    "permuted fc": Fault("right", [("fc-order", None)], change={"draft": "~/models/permuted"}),
    "partial sum": Fault("right", [("rank-partial-sum", None)], fused=True),
}


def taken(box: Box, profile: Profile, samples: list[Prompt], out: Path, *more: Path) -> Capture:
    """The samples' own tokens through a server: taps, terms and feed; into `more` the feed alone."""
    with serving(box, profile.model_copy(update={"capture": True}), progress=False) as served:
        capture(box, served.run, samples, max_new_tokens=1, out=out, terms=True, progress=False)
        for folder in more:
            capture(box, served.run, samples, boundaries="none", max_new_tokens=1, out=folder, progress=False)
    return read_capture(out, verify=True)


def examine(found: Capture, draft: Path, *, run_graphs: bool | None = None) -> Diagnosis:
    return diagnose(
        found,
        read_dump(LAB / "dump"),
        convention=SGLANG_059_DEEPSEEK,
        draft=draft,
        target=LAB / "target",
        run_graphs=run_graphs,
        flags=flags_of(found.info),
    )


def codes(diagnosis: Diagnosis) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.slot) for finding in diagnosis.findings]


@pytest.mark.full
def test_a_drafter_whose_fc_was_permuted(
    box: Box, profiles: dict[str, Profile], samples: list[Prompt], permuted: Path, tmp_path: Path
) -> None:
    """The feed is right: the lab's own drafter would be served well by it. With a ladder, and with the feed alone."""
    box.push(permuted, "~/models/permuted", progress=False)
    profile = profiles["right"].model_copy(update={"draft": "~/models/permuted", "name": "permuted"})
    found = taken(box, profile, samples, tmp_path / "all", tmp_path / "feed")
    check_terms(found)
    feed_alone = read_capture(tmp_path / "feed", verify=True)
    assert feed_alone.ranks[0].boundaries == []
    for one in (found, feed_alone):
        diagnosis = examine(one, permuted)
        assert codes(diagnosis) == [("fc-order", None)]
        assert (diagnosis.verdict, diagnosis.undecided) == ("mismatch", [])
        evidence = diagnosis.findings[0].evidence
        assert (evidence["order"], evidence["requests"]) == ([2, 1, 0], 12)
        assert evidence["ci95"][0] > 0.5
        assert diagnosis.fix is not None
        assert (diagnosis.fix.aux_layer_ids, diagnosis.fix.launch) == (None, [])
        assert "[2, 1, 0]" in diagnosis.fix.note
    right = examine(found, LAB / "drafter")
    assert (codes(right), [one.code for one in right.undecided]) == ([("features-match", None)], PROMPTS_ALONE)
    check_graphs(found)


def check_terms(found: Capture) -> None:
    """Each boundary is its two terms' sum; the first has no residual."""
    rank = found.ranks[0]
    assert "residual.0" not in rank.entries
    for boundary in range(1, 11):
        total = rank.tensor(f"out.{boundary}") + rank.tensor(f"residual.{boundary}")
        assert torch.equal(total, rank.tensor(f"boundary.{boundary:03d}"))


def check_graphs(found: Capture) -> None:
    """A CPU has no graphs to use; a run elsewhere that uses them is warned of, and the check is named."""
    assert (found.info.launch["cuda_graph"], found.info.without_capture) == (False, {"cuda_graph": False})
    warned = examine(found, LAB / "drafter", run_graphs=True)
    assert codes(warned) == [("captured-without-graphs", None), ("features-match", None)]
    assert (warned.verdict, warned.captured_with["cuda_graph"]) == ("match", False)
    assert warned.fix is not None
    assert warned.fix.launch == ["--disable-cuda-graph"]


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault(
    box: Box, profiles: dict[str, Profile], samples: list[Prompt], permuted: Path, tmp_path: Path, name: str, tp: int
) -> None:
    fault = FAULTS[name]
    box.push(permuted, "~/models/permuted", progress=False)
    profile = profiles[fault.profile]
    extra = (*profile.extra_args, FUSED) if fault.fused else profile.extra_args
    profile = profile.model_copy(update={"tp": tp, "extra_args": extra, **fault.change})
    found = taken(box, profile, samples, tmp_path / "capture")
    assert (len(found.ranks), found.info.aux_layer_ids) == (tp, list(profile.aux_layer_ids or ()))
    diagnosis = examine(found, permuted if "draft" in fault.change else LAB / "drafter")
    # On one rank there is nothing to reduce, so that fusing it away does no harm.
    nothing = fault.fused and tp == 1
    assert codes(diagnosis) == ([("features-match", None)] if nothing else fault.findings)
    assert [slot.served.boundary for slot in diagnosis.slots] == list(fault.fed)
    assert [slot.trained.boundary for slot in diagnosis.slots] == [2, 5, 9]
    assert (diagnosis.fix.aux_layer_ids if diagnosis.fix else None) == fault.ids
    # The order that fc wants is judged by a feed that is right; else it is said to be open.
    judged = nothing or fault.findings[0][0] in ("features-match", "fc-order")
    matches = nothing or fault.findings == [("features-match", None)]
    assert [one.code for one in diagnosis.undecided] == (PROMPTS_ALONE if matches else [] if judged else ["fc-order"])
    assert diagnosis.ranks.equal == (not fault.fused or nothing)
    if fault.fused and not nothing:
        check_partial(diagnosis)
    else:
        check_terms(found)


def check_partial(diagnosis: Diagnosis) -> None:
    """The terms tell why, and put together they are what training saw."""
    (finding,) = diagnosis.findings
    assert finding.evidence["terms_differ"] == {"out": True, "residual": False}
    assert finding.evidence["reconstructed"] is True
    scores = finding.evidence["trained_scores"]
    assert set(scores) == {"boundary.002", "boundary.005", "boundary.009"}
    for one in scores.values():
        assert one["residual_plus_sum_of_outs"] > 0.9999 > one["rank_0"]
    assert diagnosis.fix is not None
    assert diagnosis.fix.launch == []  # 0.5.9 has no argument against it
    assert FUSED in diagnosis.fix.note
