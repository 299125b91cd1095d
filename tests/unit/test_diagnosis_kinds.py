"""What a slot can be beside a plain tap, with and without a ladder and a target; ranks; rows that never arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import faults
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.errors import UsageError
from helpers.paths import DATA
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import Dump, read_dump
from helpers.wiring.diagnosis import Diagnosis, diagnose
from helpers.wiring.missing import edge_of, gaps

Fault = Callable[[faults.World], None]
TARGET = DATA / "lab" / "target"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sides(tmp_path: Path, source: str, fault: Fault, *, seed: int = 3, ladder: bool = True) -> tuple[Capture, Dump]:
    world = faults.SOURCES[source](seed).fresh()
    fault(world)
    if not ladder:
        for rank in world.served.ranks:
            for name in [name for name in rank if name.startswith("boundary")]:
                del rank[name]
    return read_capture(world.write(tmp_path / "c")), read_dump(world.dump(tmp_path / "d"))


def found(diagnosis: Diagnosis) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.slot) for finding in diagnosis.findings]


def slot(number: int, edit: Callable[[faults.World, int, torch.Tensor], torch.Tensor]) -> Fault:
    def apply(world: faults.World) -> None:
        world.feed[number] = edit(world, number, world.feed[number])

    return apply


@pytest.mark.parametrize("source", faults.SOURCES)
@pytest.mark.parametrize("step", [-2, -1, 1, 2])
@pytest.mark.parametrize("ladder", [True, False])
def test_a_shift_is_named_with_its_sign(tmp_path: Path, source: str, step: int, ladder: bool) -> None:
    def shift(world: faults.World) -> None:
        lengths = [len(text) for text in world.texts]
        world.feed = [torch.cat([p.roll(-step, dims=0) for p in part.split(lengths)]) for part in world.feed]

    diagnosis = diagnose(*sides(tmp_path, source, shift, ladder=ladder))
    assert found(diagnosis) == [("token-shift", None)]
    evidence = diagnosis.findings[0].evidence
    assert evidence["shift"] == step
    for one in evidence["slots"]:
        scores = one["scores"]
        assert set(scores) == {"-2", "-1", "0", "1", "2"}
        assert max(scores, key=scores.get) == str(step)
        assert (one["side"], one["score"], one["score_unshifted"]) == ("served", scores[str(step)], scores["0"])


@pytest.mark.parametrize("source", faults.SOURCES)
@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (faults.scaled, "scaled"),
        (faults.rotated, "rotated"),
        (faults.final_norm, "final-norm-applied"),
    ],
)
def test_kinds_that_need_no_ladder(
    tmp_path: Path, source: str, edit: Callable[[faults.World, int, torch.Tensor], torch.Tensor], code: str
) -> None:
    diagnosis = diagnose(*sides(tmp_path, source, slot(1, edit), ladder=False))
    assert found(diagnosis) == [(code, 1)]


def test_without_a_ladder_an_unknown_slot_is_left_open(tmp_path: Path) -> None:
    diagnosis = diagnose(*sides(tmp_path, "lab", faults.wired(2, 4, 9), ladder=False))
    assert (found(diagnosis), diagnosis.verdict) == ([], "inconclusive")


def test_the_targets_embedding_is_boundary_0(tmp_path: Path) -> None:
    sides_ = sides(tmp_path, "lab", faults.wired(0, 5, 9), ladder=False)
    assert diagnose(*sides_).verdict == "inconclusive"
    assert found(diagnose(*sides_, target=TARGET)) == [("slot-embedding", 0)]
    right = sides(tmp_path / "right", "lab", lambda world: None, ladder=False)
    assert found(diagnose(*right, target=TARGET)) == [("features-match", None)]


def test_the_targets_final_norm_is_recognised(tmp_path: Path) -> None:
    weight = load_file(TARGET / "model.safetensors")["model.norm.weight"].float()

    def norm(world: faults.World, number: int, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    diagnosis = diagnose(*sides(tmp_path, "lab", slot(2, norm)), target=TARGET)
    assert found(diagnosis) == [("final-norm-applied", 2)]
    assert diagnosis.findings[0].evidence["weights"] == "the target's"
    plain = diagnose(*sides(tmp_path / "o", "lab", slot(2, lambda w, n, x: norm(w, n, x) / weight)), target=TARGET)
    assert plain.findings[0].evidence["weights"] == "none"


def test_a_target_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="WB-TARGET-TENSOR"):
        diagnose(*sides(tmp_path, "lab", lambda world: None, ladder=False), target=tmp_path)
    save_file({"model.embed_tokens.weight": torch.zeros(3, 192)}, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="3 rows"):
        diagnose(*sides(tmp_path, "lab", lambda world: None, ladder=False), target=tmp_path)


def test_faults_on_the_trained_side_are_told_as_such(tmp_path: Path) -> None:
    capture, _ = sides(tmp_path, "lab", lambda world: None)
    world = faults.lab(3)
    for ladder in world.ladders:
        ladder[5] = ladder[5] * torch.rsqrt(ladder[5].square().mean(-1, keepdim=True) + 1e-6)
    diagnosis = diagnose(capture, read_dump(world.dump(tmp_path / "normed")))
    assert found(diagnosis) == [("final-norm-applied", 1)]
    assert diagnosis.findings[0].evidence["side"] == "trained"


def test_partial_sums_are_put_together_from_their_terms(tmp_path: Path) -> None:
    reconstructed = set()
    for seed in range(4):
        diagnosis = diagnose(*sides(tmp_path / str(seed), "lab", faults.partial_sum, seed=seed))
        assert found(diagnosis) == [("rank-partial-sum", None)]
        assert diagnosis.ranks.view == "partial-sum"
        reconstructed.add(diagnosis.ranks.reconstructed)
        if diagnosis.ranks.reconstructed:
            assert diagnosis.ranks.terms_differ == {"out": True, "residual": False}
            # The true taps, not rank 0's terms, are what training had.
            assert [s.trained.boundary for s in diagnosis.slots] == [2, 5, 9]
            assert [s.served.boundary for s in diagnosis.slots] == [2, 5, 9]
    assert reconstructed == {True, False}


def test_shards_are_put_together_and_then_diagnosed(tmp_path: Path) -> None:
    def token(world: faults.World) -> None:
        faults.wired(0, 2, 5)(world)
        faults.token_shard(world)

    def feature(world: faults.World) -> None:
        faults.wired(0, 2, 5)(world)
        faults.feature_shard(world)

    for name, fault, code in (("t", token, "rank-token-shard"), ("f", feature, "rank-feature-shard")):
        diagnosis = diagnose(*sides(tmp_path / name, "lab", fault))
        assert found(diagnosis) == [(code, None), ("slot-embedding", 0), ("slot-wrong", 1), ("slot-wrong", 2)]
        assert diagnosis.ranks.reconstructed


def test_ranks_of_several_kinds_are_mixed(tmp_path: Path) -> None:
    def mixed(world: faults.World) -> None:
        faults.feature_shard(world)
        for number, rank in enumerate(world.served.ranks):
            whole = world.tap(4)
            rank["boundary.004"] = whole + number * whole.std()
            rank["boundary.003"] = world.tap(3)

    diagnosis = diagnose(*sides(tmp_path, "lab", mixed))
    assert diagnosis.ranks.view == "mixed"
    assert {"rank-feature-shard", "rank-partial-sum"} <= set(diagnosis.codes())


@pytest.mark.parametrize(
    ("fed", "tail", "expected"),
    [
        (range(20), 4, []),
        (range(19), 4, []),
        (range(16), 4, []),
        (range(15), 4, [(15, 16)]),
        (range(6, 20), 4, [(0, 6)]),
        ([*range(5), *range(8, 18)], 4, [(5, 8)]),
        ([], 4, [(0, 16)]),
    ],
)
def test_the_last_verify_pass_is_never_fed_on(fed: list[int], tail: int, expected: list[tuple[int, int]]) -> None:
    assert gaps(list(range(20)), [p in fed for p in range(20)], tail) == expected


def test_where_missing_rows_sit() -> None:
    launch = {"chunked_prefill_size": 50}
    assert edge_of(50, 53, 0, 96, launch) == "chunk"
    assert edge_of(48, 50, 0, 96, launch) == "chunk"
    assert edge_of(12, 14, 12, 96, launch) == "cache"
    assert edge_of(0, 4, 0, 96, {}) == "start"
    assert edge_of(90, 96, 0, 96, {}) == "prompt"
    assert edge_of(17, 19, 0, 96, launch) is None


def test_everything_can_be_printed(tmp_path: Path) -> None:
    for name, case in faults.CASES.items():
        diagnosis = diagnose(*sides(tmp_path / name, "synthetic", case.fault))
        json.dumps(diagnosis.to_json())


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_too_few_tokens_decide_nothing(tmp_path: Path, tokens: int) -> None:
    world = faults.synthetic(0)
    world.texts = [text[:tokens] for text in world.texts[:1]]
    world.ladders = [[tap[:tokens] for tap in ladder] for ladder in world.ladders[:1]]
    world.fresh()
    capture = read_capture(world.write(tmp_path / "c"))
    diagnosis = diagnose(capture, read_dump(world.dump(tmp_path / "d")))
    assert (diagnosis.verdict, diagnosis.findings) == ("inconclusive", [])
