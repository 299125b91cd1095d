"""Sketches decide as the whole does: every case of the self-test again, with the capture left where it lies.

Small captures show the verdict on many seeds; what share of the bytes travels is shown at 4,096 tokens, on every case.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside
import faults
import jaxtyping
import pytest
import streams
import torch

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import Dump, read_dump
from helpers.tensors.near import open_near
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose

MOST = 0.04
# case -> share of the capture's bytes that travelled, at 4,096 tokens.
shares: dict[str, float] = {}


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """As in the matrix of the whole: threads and shape checks cost most on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
    torch.set_num_threads(before)


def decided(found: Diagnosis) -> dict[str, Any]:
    """What a diagnosis says, without the figures: sketches are of fewer tokens."""
    return {
        "verdict": found.verdict,
        "findings": [(f.code, f.severity, f.slot) for f in found.findings],
        "slots": [(slot.trained.boundary, slot.served.boundary) for slot in found.slots],
        "fix": found.fix,
        "ranks": found.ranks.view,
    }


def both_ways(path: Path, dump: Dump) -> tuple[Diagnosis, Diagnosis, float]:
    """The diagnosis of the whole, that of the capture left where it lies, and the share that travelled."""
    whole = diagnose(read_capture(path), dump, convention=SGLANG_059_DEEPSEEK)
    capture = open_near(beside.Beside(), str(path))
    near = diagnose(capture, dump, convention=SGLANG_059_DEEPSEEK)
    return whole, near, float(capture.traffic["share"])


def disagreements(world: faults.World, dump: Dump, folder: Path, note: dict[str, float] | None = None) -> list[str]:
    wrong = []
    for number, (name, case) in enumerate(faults.CASES.items()):
        case.fault(world.fresh())
        whole, near, share = both_ways(world.write(folder / str(number)), dump)
        if decided(whole) != decided(near):
            wrong.append(f"{name}: {decided(near)}, the whole says {decided(whole)}")
        if note is not None:
            note[name] = share
    return wrong


FEW, MANY = 2, 8  # the whole's own matrix has 20 seeds; here both ways have to agree on every case


@pytest.mark.parametrize("source", faults.SOURCES)
@pytest.mark.parametrize("seed", [*range(FEW), *(pytest.param(n, marks=pytest.mark.full) for n in range(FEW, MANY))])
def test_sketches_decide_as_the_whole_does(tmp_path: Path, source: str, seed: int) -> None:
    world = faults.SOURCES[source](seed)
    dump = read_dump(world.dump(tmp_path / "dump"))
    assert not disagreements(world, dump, tmp_path)


def test_at_4096_tokens_every_case_is_decided_from_four_percent(tmp_path: Path) -> None:
    texts = streams.texts(8, length=502, seed=7)
    world = faults.World(texts, [streams.stream(text) for text in texts], random.Random(0))
    assert sum(map(len, texts)) >= 4096
    dump = read_dump(world.dump(tmp_path / "dump"))
    assert not disagreements(world, dump, tmp_path, shares)
    assert {name: share for name, share in shares.items() if share > MOST} == {}


def table() -> list[str]:
    """What travelled, as text; empty where it was not run."""
    if not shares:
        return []
    return [f"{'case, 4,096 tokens':<26}{'share of bytes':>15}"] + [f"{n:<26}{s:>15.2%}" for n, s in shares.items()]
