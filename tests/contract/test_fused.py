"""Compiled products against those of torch, and against float64: any type, layout, number of slots and broken rows."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cosine_similarity

from helpers.progress import slow
from helpers.tensors import paired
from helpers.tensors.paired import Paired, compare_rows
from helpers.tensors.statistics import SHIFTS

ROOT = Path(__file__).resolve().parents[2]
PER_TOKEN = ("norms_a", "norms_b", "cosine", "centred_cosine")
MEANS = ("matrix", "centred")


def by(way: str, a: Tensor, b: Tensor, **how: object) -> Paired:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "LARGE", 0 if way == "compiled" else 1 << 60)
        return compare_rows(a, b, shifts=SHIFTS, centred=True, counts=True, **how)  # type: ignore[arg-type]


def same(one: Paired, two: Paired, *, within: float = 2e-6) -> None:
    """The two agree: lengths to a millionth, cosines to two, all that is counted to the last."""
    assert one.tokens == two.tokens
    assert torch.equal(one.keep, two.keep)
    for name in (*PER_TOKEN, *MEANS):
        x, y = getattr(one, name), getattr(two, name)
        relative = 1e-6 if name.startswith("norms") else 0.0
        assert torch.allclose(x, y, rtol=relative, atol=within, equal_nan=True), (name, (x - y).abs().max())
    for name in ("hashes_a", "hashes_b"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    for name in ("zero", "non_finite", "repeated"):
        for x, y in zip(getattr(one, name), getattr(two, name), strict=True):
            assert torch.equal(x, y), name


TYPES = (torch.bfloat16, torch.float32, torch.float16, torch.float64, torch.float8_e4m3fn)
BREAK = ("nothing", "zero", "nan", "infinity", "repeat", "short")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    tokens=st.integers(6, 70),
    slots=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    hidden=st.sampled_from([1, 3, 8, 33, 64, 517, 1040]),
    types=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    common=st.sampled_from([0.0, 1.0, 8.0]),
    broken=st.lists(st.tuples(st.sampled_from(BREAK), st.integers(0, 1), st.integers(0, 69)), max_size=4),
    padded=st.integers(0, 20),
)
def test_both_ways_agree(
    seed: int,
    tokens: int,
    slots: tuple[int, int],
    hidden: int,
    types: tuple[torch.dtype, torch.dtype],
    common: float,
    broken: list[tuple[str, int, int]],
    padded: int,
) -> None:
    draw = torch.Generator().manual_seed(seed)
    vector = common * torch.randn(hidden, generator=draw)
    sides = [(torch.randn(tokens, k, hidden, generator=draw) + vector) for k in slots]
    for how, side, place in broken:
        row = sides[side][place % tokens]
        if how == "repeat":
            row.copy_(sides[side][(place + 1) % tokens])
        elif how != "nothing":
            row[0] *= {"zero": 0.0, "nan": float("nan"), "infinity": float("inf"), "short": 2.0**-6}[how]
    a, b = (x.to(kind) for x, kind in zip(sides, types, strict=True))
    padding = torch.arange(tokens) >= tokens - padded
    # Rows of few features cancel by chance, and a cosine without the mean of what is hardly there is all rounding.
    same(*(by(way, a, b, padding=padding) for way in ("torch", "compiled")), within=1e-4 if hidden < 8 else 4e-6)


def features_apart(x: Tensor) -> Tensor:
    return x.permute(0, 2, 1).contiguous().permute(0, 2, 1)


def off_by_one(x: Tensor) -> Tensor:
    """Rows that start at no whole word."""
    return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)


def some_slots(x: Tensor) -> Tensor:
    """As speculators has them: slots without the last state."""
    return torch.cat([x, x.flip(1)], dim=1)[:, : x.shape[1]]


def one_row(x: Tensor) -> Tensor:
    return x[:, :1].expand(*x.shape)


@pytest.mark.parametrize("layout", [features_apart, off_by_one, some_slots, one_row])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_rows_lie_anywhere(layout: Callable[[Tensor], Tensor], kind: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randn(40, 3, 64, generator=draw).to(kind) for _ in "ab")
    same(by("compiled", layout(a), layout(b)), by("torch", layout(a).clone(), layout(b).clone()))


@pytest.mark.parametrize("way", ["torch", "compiled"])
def test_short_rows_keep_their_digits(way: str) -> None:
    """Where a row is far shorter than its mean, what is left of products with the mean taken back on is rounding."""
    draw = torch.Generator().manual_seed(2)
    a, b = (torch.randn(60, 2, 700, generator=draw) + 5 for _ in "ab")
    a[20], b[30], a[40, 1], a[50] = a[20] * 1e-5, b[30] * 1e-6, a[40, 1] * 1e-4, 0
    x, y = a.double(), b.double()
    found = by(way, a, b)
    expected = cosine_similarity(x, y, dim=-1).float()
    assert torch.allclose(found.cosine, expected, atol=1e-6)
    assert found.cosine[50].tolist() == [0, 0]
    assert found.tokens == 58 - 3 - 1  # neither the ends, nor what is held against token 0, nor the zero row


@pytest.mark.parametrize(("way", "within"), [("torch", 1e-5), ("compiled", 2e-7)])
def test_long_rows_are_summed_as_in_float64(way: str, within: float) -> None:
    draw = torch.Generator().manual_seed(3)
    common = 30 * torch.randn(20_000, generator=draw)
    a, b = ((torch.randn(12, 3, 20_000, generator=draw) + common).bfloat16() for _ in "ab")
    x, y = a.double(), b.double()
    found = by(way, a, b)
    assert torch.allclose(found.norms_a.double(), x.norm(dim=-1), rtol=within)
    assert torch.allclose(found.cosine.double(), cosine_similarity(x, y, dim=-1), atol=within)
    u, v = x - x[1:].mean(dim=0), y - y[1:].mean(dim=0)
    assert found.centred_cosine is not None
    assert torch.allclose(found.centred_cosine.double(), cosine_similarity(u, v, dim=-1), atol=1e-5)


@pytest.mark.parametrize("way", ["torch", "compiled"])
def test_means_of_many_tokens_keep_their_digits(way: str) -> None:
    """One direction far longer than all else, as in real streams: what is left without the mean is a thousandth."""
    draw = torch.Generator().manual_seed(4)
    a, b = (torch.randn(3000, 1, 48, generator=draw) + 1000 for _ in "ab")
    u, v = a.double() - a[1:].double().mean(dim=0), b.double() - b[1:].double().mean(dim=0)
    found = by(way, a, b)
    assert found.centred_cosine is not None
    assert torch.allclose(found.centred_cosine.double(), cosine_similarity(u, v, dim=-1), atol=1e-4)


def run(code: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **settings},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_small_stacks_load_no_compiler() -> None:
    code = """
import sys, torch
from helpers.tensors.paired import compare_rows
x = torch.randn(160, 3, 64)
compare_rows(x, x, shifts=(-1, 0, 1), centred=True, counts=True)
print("numba" in sys.modules)
"""
    assert run(code).strip() == "False"


def test_without_a_folder_to_keep_code_in(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = """
import numpy as np
from helpers.tensors import kernels
out = np.zeros((1, 4))
kernels.add_up(np.arange(8, dtype=np.float32).view(np.uint32), 4, 4, np.uint32(0), np.array([True, True]), out)
print(out.tolist(), kernels.add_up.stats.cache_path)
"""
    nowhere = {
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "NUMBA_CACHE_DIR": str(tmp_path / "file" / "x"),
    }
    assert run(code, **nowhere).strip() == "[[4.0, 6.0, 8.0, 10.0]] None"


def test_a_full_disk_costs_no_result(tmp_path: Path) -> None:
    """The folder is there, but nothing can be written: the code is compiled, used, and not kept."""
    code = """
import resource, torch
from helpers.tensors import paired
paired.LARGE = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
x = torch.ones(9, 1, 4)
print(paired.compare_rows(x, x, centred=True).matrix.tolist())
"""
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "[[[1.0]]]"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY, "only the other process is limited"


def test_words_only_where_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    with slow("comparison", "compiling", after=30):
        pass
    assert capsys.readouterr().err == ""
    with slow("comparison", "compiling", after=0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err.startswith("comparison: compiling (0 s)\ncomparison: done")
