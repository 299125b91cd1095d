"""The one-pass statistics of two stacks, against the obvious code in float64."""

from __future__ import annotations

from pathlib import Path

import dump_files
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from helpers.tensors import fused, paired, streaming
from helpers.tensors.dumps import read_dump
from helpers.tensors.health import row_hash
from helpers.tensors.paired import compare_rows
from helpers.tensors.statistics import SHIFTS


@pytest.fixture(params=["torch", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of taking products is held to the same tests, whatever the stacks' size."""
    monkeypatch.setattr(paired, "LARGE", 0 if request.param == "compiled" else 1 << 60)
    return str(request.param)


def pair(tokens: int, slots: int = 3, others: int = 2, hidden: int = 16) -> tuple[Tensor, Tensor]:
    """Two stacks with a large common vector, the second's first slots near the first's."""
    draw = torch.Generator().manual_seed(tokens)
    common = 20 * torch.randn(hidden, generator=draw)
    a = torch.randn(tokens, slots, hidden, generator=draw) + common
    b = a[:, :others] + 0.4 * torch.randn(tokens, others, hidden, generator=draw)
    return a.bfloat16(), b.bfloat16()


def means(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([cosine_similarity(x[:, [k]], y, dim=-1).mean(dim=0) for k in range(x.shape[1])]).float()


@pytest.mark.parametrize("shifts", [(0,), SHIFTS, (1,)])
@pytest.mark.parametrize("block", [2000, 1_400_000])
@pytest.mark.usefixtures("way")
def test_as_the_obvious_code(shifts: tuple[int, ...], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block == 2000:  # pieces of nine tokens, read a few at a time
        monkeypatch.setattr(streaming, "CACHE", block)
        monkeypatch.setattr(streaming, "PIECE", 9)
        monkeypatch.setattr(fused, "PIECE", 9)
        monkeypatch.setattr(fused, "FEW", 2)
        monkeypatch.setattr(fused, "BUDGET", block)
    for tokens in (7, 40):
        a, b = pair(tokens)
        x, y = a.double(), b.double()
        found = compare_rows(a, b, shifts=shifts, centred=True, counts=True)
        assert torch.allclose(found.norms_a, x.norm(dim=-1).float(), rtol=1e-5)
        assert torch.allclose(found.norms_b, y.norm(dim=-1).float(), rtol=1e-5)
        assert torch.allclose(found.cosine, cosine_similarity(x[:, :2], y, dim=-1).float(), atol=1e-5)
        u, v = x - x[1:].mean(dim=0), y - y[1:].mean(dim=0)
        assert found.centred_cosine is not None
        assert found.centred is not None
        assert torch.allclose(found.centred_cosine, cosine_similarity(u[:, :2], v, dim=-1).float(), atol=1e-4)
        edge = max(map(abs, shifts))
        low, high = max(1, edge, 1 - min(shifts)), tokens - edge  # token 0 is nobody's partner either
        assert found.tokens == high - low
        for number, shift in enumerate(shifts):
            there = slice(low + shift, high + shift)
            assert torch.allclose(found.matrix[number], means(x[low:high], y[there]), atol=1e-5)
            assert torch.allclose(found.centred[number], means(u[low:high], v[there]), atol=1e-4)
        plain = compare_rows(a, b, shifts=shifts)
        assert torch.allclose(plain.matrix, found.matrix, atol=1e-5)
        assert plain.centred is None


@pytest.mark.usefixtures("way")
def test_threads_have_stretches_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(101)
    alone = compare_rows(a, b, shifts=SHIFTS, centred=True)
    monkeypatch.setattr(paired, "SMALL", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = compare_rows(a, b, shifts=SHIFTS, centred=True)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for name in ("norms_a", "norms_b", "cosine", "centred_cosine", "matrix", "centred"):
        assert torch.allclose(getattr(alone, name), getattr(together, name), atol=1e-5), name
    assert alone.tokens == together.tokens


@pytest.mark.usefixtures("way")
def test_broken_rows_are_counted_and_in_no_mean() -> None:
    a, b = pair(30)
    clean = compare_rows(a, b, centred=True, padding=torch.arange(30) >= 20)
    a[25], b[26, 0], a[27, 1, 3], b[28, 1, 0] = 0, b[3, 0], float("nan"), float("inf")
    found = compare_rows(a, b, centred=True, counts=True, padding=torch.arange(30) >= 20)
    assert [n.tolist() for n in found.non_finite] == [[0, 1, 0], [0, 1]]
    assert [n.tolist() for n in found.zero] == [[1, 1, 1], [0, 0]]
    assert [n.tolist() for n in found.repeated] == [[0, 0, 0], [1, 0]]
    assert found.tokens == clean.tokens == 19
    assert torch.allclose(found.matrix, clean.matrix, atol=1e-6)
    unpadded = compare_rows(a, b, centred=True)
    assert unpadded.tokens == 26  # token 0, the zero row and the two that are not finite are left out
    assert unpadded.centred is not None
    assert torch.isfinite(unpadded.centred).all()
    low, middle, high = found.norm_quantiles()[0]
    assert (low <= middle).all()
    assert (middle <= high).all()
    with pytest.raises(ValueError, match="counts=True"):
        _ = unpadded.repeated


@pytest.mark.usefixtures("way")
def test_slots_against_a_ladder_of_a_mapped_dump(tmp_path: Path) -> None:
    x = dump_files.states(12, 3, hidden=32)
    dump_files.speculators(tmp_path, 0, x)
    ladder = torch.stack([x[:, 1], x[:, 0], torch.randn(12, 32).bfloat16(), x[:, 2], x[:, 3]], dim=1)
    found = compare_rows(read_dump(tmp_path)[0], ladder, centred=True)
    assert found.centred is not None
    assert found.centred.shape == (1, 3, 5)  # K x (n + 1)
    assert found.centred[0].argmax(dim=1).tolist() == [1, 0, 3]


def test_what_cannot_be_compared() -> None:
    a, b = pair(5)
    with pytest.raises(ValueError, match="same tokens"):
        compare_rows(a, b[:4])
    with pytest.raises(ValueError, match="too few"):
        compare_rows(a, b, shifts=SHIFTS)


def test_a_hash_sees_signs_and_places() -> None:
    x = torch.randn(1, 64).bfloat16().repeat(4, 1)
    x[1, [3, 7]] *= -1  # two flips of the highest bit of a word
    x[2, [0, 4]] = x[2, [4, 0]]
    hashes = row_hash(x).tolist()
    assert hashes[0] == hashes[3]
    assert len(set(hashes)) == 3
    assert len(set(row_hash(x[:, :5].float()).tolist())) == 3  # no whole words
    within = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)  # rows that start inside a word
    assert row_hash(within).tolist() == hashes
