"""Each finding is found when present and absent when not (streams with outliers, a sink, near neighbours)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streams
import torch
from safetensors.torch import save_file

from helpers.errors import UsageError
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose
from helpers.wiring.features import compare_features
from helpers.wiring.tables import ladder_rows, norm_rows, slot_matrix_rows

Change = Callable[[streams.Served], None]


def run(
    tmp_path: Path,
    feed: tuple[int, ...] = streams.TAPS,
    trained: tuple[int, ...] = streams.TAPS,
    *,
    seed: int = 0,
    ranks: int = 1,
    change: Change | None = None,
    other_texts: bool = False,
    draft: Path | None = None,
) -> Diagnosis:
    texts = streams.texts(seed=seed + 7)
    served = streams.served(texts, feed, ranks=ranks, seed=seed)
    if change is not None:
        change(served)
    capture = read_capture(served.write(tmp_path / "c"))
    dumped = streams.texts(seed=seed + 99) if other_texts else texts[::-1]
    dump = read_dump(streams.write_dump(tmp_path / "d", dumped, trained, seed=seed))
    return diagnose(capture, dump, convention=SGLANG_059_DEEPSEEK, draft=draft)


def found(diagnosis: Diagnosis) -> list[tuple[str, int | None, dict[str, Any]]]:
    return [(f.code, f.slot, f.evidence) for f in diagnosis.findings]


@pytest.mark.parametrize("seed", range(5))
def test_right(tmp_path: Path, seed: int) -> None:
    diagnosis = run(tmp_path, seed=seed)
    assert diagnosis.codes() == ["features-match"]
    assert (diagnosis.verdict, diagnosis.exit_code, diagnosis.fix) == ("match", 0, None)
    assert [s.served.boundary for s in diagnosis.slots] == [2, 5, 9]
    assert all(s.served.score is not None and s.served.score > 0.999 for s in diagnosis.slots)


@pytest.mark.parametrize("seed", range(5))
def test_the_case(tmp_path: Path, seed: int) -> None:
    diagnosis = run(tmp_path, (0, 2, 5), seed=seed)
    assert found(diagnosis) == [
        ("slot-embedding", 0, {"trained": 2}),
        ("slot-wrong", 1, {"served": 2, "trained": 5, "equals_trained_slot": 0}),
        ("slot-wrong", 2, {"served": 5, "trained": 9, "equals_trained_slot": 1}),
    ]
    assert (diagnosis.verdict, diagnosis.exit_code) == ("mismatch", 1)
    assert diagnosis.fix is not None
    assert diagnosis.fix.aux_layer_ids == [1, 4, 8]


@pytest.mark.parametrize(("feed", "step"), [((1, 4, 8), -1), ((3, 6, 10), 1), ((0, 3, 7), -2)])
def test_offset(tmp_path: Path, feed: tuple[int, ...], step: int) -> None:
    diagnosis = run(tmp_path, feed)
    codes = ["slot-embedding", "slot-offset"] if feed[0] == 0 else ["slot-offset"]
    assert diagnosis.codes() == codes
    assert diagnosis.findings[-1].evidence == {"offset": step, "served": list(feed), "trained": [2, 5, 9]}


def test_permuted(tmp_path: Path) -> None:
    def configured(served: streams.Served) -> None:
        served.info["aux_layer_ids"] = [1, 4, 8]

    diagnosis = run(tmp_path, (5, 9, 2), change=configured)
    assert found(diagnosis) == [("slot-permuted", None, {"order": [1, 2, 0]})]
    assert diagnosis.fix is not None
    assert diagnosis.fix.aux_layer_ids is None
    assert "already" in diagnosis.fix.note


def test_duplicate(tmp_path: Path) -> None:
    assert found(run(tmp_path, (2, 2, 9))) == [("slot-duplicate", 1, {"slots": [0, 1], "served": 2})]


def test_wrong(tmp_path: Path) -> None:
    assert found(run(tmp_path, (2, 4, 9))) == [("slot-wrong", 1, {"served": 4, "trained": 5})]


def test_trained_on_the_embedding_needs_the_patch(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, (2, 5, 9), (0, 5, 9))
    assert diagnosis.codes() == ["slot-wrong"]
    assert diagnosis.fix is not None
    assert diagnosis.fix.aux_layer_ids == [-1, 4, 8]
    assert "capture-embedding" in diagnosis.fix.note


def test_ids_that_cannot_mend_are_not_named(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, (2, 5, 9), (2, 5, 10))
    assert diagnosis.fix is not None
    assert diagnosis.fix.aux_layer_ids is None


@pytest.mark.parametrize("feed", [(2, 5), (2, 5, 9, 10)])
def test_count(tmp_path: Path, feed: tuple[int, ...]) -> None:
    assert run(tmp_path, feed).codes() == ["slot-count"]


def test_a_width_that_is_no_multiple(tmp_path: Path) -> None:
    def cut(served: streams.Served) -> None:
        served.ranks[0]["feed"] = served.ranks[0]["feed"][:, :-5]

    diagnosis = run(tmp_path, change=cut)
    assert diagnosis.codes() == ["slot-count"]
    assert diagnosis.findings[0].evidence["served"] is None


def test_the_drafters_fc_counts_too(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    save_file({"fc.weight": torch.zeros(8, 2 * streams.HIDDEN)}, draft / "model.safetensors")
    assert run(tmp_path / "a", draft=draft).codes() == ["slot-count"]
    save_file({"model.fc.weight": torch.zeros(8, 3 * streams.HIDDEN)}, draft / "model.safetensors")
    assert run(tmp_path / "b", draft=draft).codes() == ["features-match"]
    save_file({"x": torch.zeros(1)}, draft / "model.safetensors")
    with pytest.raises(UsageError, match="WB-DRAFT-FC"):
        run(tmp_path / "c", draft=draft)


def change_slot(slot: int, edit: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]) -> Change:
    def change(served: streams.Served) -> None:
        for rank in served.ranks:
            part = slice(slot * streams.HIDDEN, (slot + 1) * streams.HIDDEN)
            rank["feed"][:, part] = edit(rank["feed"][:, part], rank)

    return change


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda x, rank: torch.randn(x.shape), id="noise"),
        pytest.param(lambda x, rank: x + 8, id="constant added to every channel"),
    ],
)
def test_unmatched(tmp_path: Path, edit: Callable[..., torch.Tensor]) -> None:
    diagnosis = run(tmp_path, change=change_slot(1, edit))
    assert [(f.code, f.slot) for f in diagnosis.findings] == [("slot-unmatched", 1)]
    assert diagnosis.slots[1].served.boundary is None
    assert diagnosis.slots[1].served.score is not None


def test_scaled(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, change=change_slot(2, lambda x, rank: x * 1.1))
    assert [(f.code, f.slot) for f in diagnosis.findings] == [("scaled", 2)]
    assert diagnosis.findings[0].evidence["scale"] == pytest.approx(1.1, abs=0.001)


def test_tokens_differ(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, other_texts=True)
    assert diagnosis.codes() == ["tokens-differ"]
    assert (diagnosis.verdict, diagnosis.aligned_tokens, diagnosis.fix) == ("mismatch", 0, None)


def test_non_finite_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    def break_rows(served: streams.Served) -> None:
        served.ranks[0]["feed"][3, 5] = float("nan")
        served.ranks[0]["feed"][20:22, 90] = float("inf")
        served.ranks[0]["boundary.004"][7] = float("nan")

    diagnosis = run(tmp_path, (0, 2, 5), change=break_rows)
    assert found(diagnosis)[0] == (
        "non-finite",
        None,
        {"rows": {"boundary.004": 1, "feed": 3}, "first_rows": {"boundary.004": [7], "feed": [3, 20, 21]}},
    )
    assert diagnosis.codes()[1:] == ["slot-embedding", "slot-wrong", "slot-wrong"]
    assert diagnosis.aligned_tokens == run(tmp_path / "clean").aligned_tokens - 4


def test_all_rows_non_finite(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, change=change_slot(0, lambda x, rank: x * float("nan")))
    assert (diagnosis.codes(), diagnosis.verdict) == (["non-finite"], "mismatch")


def test_without_a_feed_nothing_is_said(tmp_path: Path) -> None:
    def no_feed(served: streams.Served) -> None:
        del served.ranks[0]["feed"], served.ranks[0]["feed_rows"]

    diagnosis = run(tmp_path, change=no_feed)
    assert (diagnosis.verdict, diagnosis.exit_code, diagnosis.findings) == ("inconclusive", 1, [])
    assert [s.trained.boundary for s in diagnosis.slots] == [2, 5, 9]


def keep_boundaries(*kept: int) -> Change:
    def change(served: streams.Served) -> None:
        for rank in served.ranks:
            for b in set(range(streams.LAYERS + 1)) - set(kept):
                del rank[f"boundary.{b:03d}"]

    return change


def test_without_a_ladder_slots_are_known_by_each_other(tmp_path: Path) -> None:
    assert run(tmp_path / "a", change=keep_boundaries()).codes() == ["features-match"]
    permuted = run(tmp_path / "b", (9, 2, 5), change=keep_boundaries())
    assert found(permuted) == [("slot-permuted", None, {"order": [2, 0, 1]})]
    case = run(tmp_path / "c", (0, 2, 5), change=keep_boundaries())
    assert [(f.slot, f.evidence["equals_trained_slot"]) for f in case.findings] == [(1, 0), (2, 1)]
    assert case.slots[0].served.boundary is None
    assert case.fix is not None
    assert case.fix.aux_layer_ids is None


def test_a_part_of_the_ladder_proves_no_absence(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, (2, 5, 7), change=keep_boundaries(2, 5, 9))
    assert (diagnosis.verdict, diagnosis.findings) == ("inconclusive", [])
    assert [s.served.boundary for s in diagnosis.slots] == [2, 5, None]


def test_ranks_that_are_replicas(tmp_path: Path) -> None:
    diagnosis = run(tmp_path, ranks=2)
    assert diagnosis.codes() == ["features-match"]
    assert diagnosis.ranks.equal


def test_terms_that_were_not_reduced(tmp_path: Path) -> None:
    def partial(served: streams.Served) -> None:
        for sign, rank in zip((1, -1), served.ranks, strict=True):
            torch.manual_seed(1)
            other = sign * torch.randn(rank["boundary.005"].shape)
            rank["boundary.005"] += other
            rank["out.5"] = rank["boundary.005"] - rank["boundary.004"]
            rank["residual.5"] = rank["boundary.004"].clone()

    diagnosis = run(tmp_path, ranks=2, change=partial)
    finding = next(f for f in diagnosis.findings if f.code == "rank-partial-sum")
    assert finding.evidence["terms_differ"] == {"out": True, "residual": False}
    assert not diagnosis.ranks.equal
    assert diagnosis.verdict == "mismatch"


def test_last_bits_that_differ_are_reported_and_no_fault(tmp_path: Path) -> None:
    def jitter(served: streams.Served) -> None:
        served.ranks[1]["boundary.005"] *= 1 + 1e-6

    diagnosis = run(tmp_path, ranks=2, change=jitter)
    assert diagnosis.codes() == ["features-match"]
    assert not diagnosis.ranks.equal
    assert list(diagnosis.ranks.differing) == ["boundary.005"]


def test_ranks_with_other_tokens(tmp_path: Path) -> None:
    def shard(served: streams.Served) -> None:
        served.ranks[1]["token_ids"] = served.ranks[1]["token_ids"].roll(1)

    assert "rank-token-shard" in run(tmp_path, ranks=2, change=shard).codes()


def test_a_capture_of_a_server_with_graphs_says_what_it_did_not_see(tmp_path: Path) -> None:
    def graphs(served: streams.Served) -> None:
        served.info["launch"] = {"cuda_graph": True}

    diagnosis = run(tmp_path, change=graphs)
    assert [(f.code, f.severity) for f in diagnosis.findings] == [
        ("captured-without-graphs", "warning"),
        ("features-match", "info"),
    ]
    assert diagnosis.verdict == "match"


def test_a_dump_of_another_model(tmp_path: Path) -> None:
    texts = streams.texts()
    capture = read_capture(streams.served(texts).write(tmp_path / "c"))
    (tmp_path / "d").mkdir()
    states = [torch.randn(len(texts[0]), 32) for _ in range(4)]
    torch.save({"input_ids": texts[0], "loss_mask": None, "hidden_states": states}, tmp_path / "d" / "data_0.pt")
    with pytest.raises(UsageError, match="WB-DUMP-HIDDEN"):
        diagnose(capture, read_dump(tmp_path / "d"))


def test_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    written = json.loads(json.dumps(run(tmp_path, (0, 2, 5)).to_json()))
    keys = {"schema", "verdict", "findings", "slots", "aligned_tokens", "captured_with", "fix"}
    assert keys <= set(written)
    assert written["schema"] == "workbook.diagnosis/1"
    assert set(written["findings"][0]) == {"code", "severity", "slot", "summary", "evidence"}
    assert written["slots"][0]["served"] == {"boundary": 0, "score": 1.0}
    assert set(written["fix"]) == {"aux_layer_ids", "launch", "note"}


def test_tables_for_the_figures(tmp_path: Path) -> None:
    texts = streams.texts()
    capture = read_capture(streams.served(texts, (0, 2, 5)).write(tmp_path / "c"))
    compared = compare_features(capture, read_dump(streams.write_dump(tmp_path / "d", texts)))
    norms = norm_rows(compared)
    assert len(norms) == 6 * compared.tokens
    assert set(norms["side"]) == {"trained", "served"}
    assert norms["token"].min() == 1
    matrix = slot_matrix_rows(compared).pivot(index="served", columns="trained", values="cosine")
    assert matrix.loc[1, 0] > 0.999
    assert matrix.loc[0].max() < 0.99
    rows = ladder_rows(compared)
    best = rows.loc[rows.groupby(["side", "slot"])["cosine"].idxmax()]
    assert best["boundary"].tolist() == [0, 2, 5, 2, 5, 9]
