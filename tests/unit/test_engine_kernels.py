"""The lab's CPU engine: torch versions of triton kernels, and the stand-in that hands launches to them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

import remote.lab.engine.cpu_engine as cpu_engine
import remote.lab.engine.cpu_engine.kernels as kernels
import remote.lab.engine.triton as triton
from remote.lab.engine.cpu_engine.change import EngineMismatch
from remote.lab.engine.cpu_engine.kernels import cache_rows, cache_slots, draft_extend
from remote.lab.engine.cpu_engine.kernels.table import MissingKernel
from remote.lab.engine.triton.language import constexpr, exp, math


def test_slots_are_written_between_start_and_end_of_each_row() -> None:
    table = torch.zeros(4, 12, dtype=torch.int32)
    starts, ends, rows = torch.tensor([2, 0, 5]), torch.tensor([4, 3, 5]), torch.tensor([3, 1, 0])
    cache_slots.assign_req_to_token_pool((3,), rows, table, starts, ends, torch.arange(10, 15), 12, 4)
    expected = torch.zeros(4, 12, dtype=torch.int32)
    expected[3, 2:4] = torch.tensor([10, 11])
    expected[1, 0:3] = torch.tensor([12, 13, 14])
    assert table.tolist() == expected.tolist()


def test_draft_slots_lie_behind_each_sequence_branch_after_branch() -> None:
    table = torch.zeros(3, 12, dtype=torch.int32)
    arguments = (torch.tensor(0), torch.tensor(0), torch.arange(20, 32), None, None, None, 0, 12)
    cache_slots.assign_draft_cache_locs(
        (2,), torch.tensor([2, 0]), table, torch.tensor([4, 1]), *arguments, 2, 3, 1, 2, 4
    )
    assert table[2].tolist() == [0, 0, 0, 0, 20, 21, 22, 23, 24, 25, 0, 0]
    assert table[0].tolist() == [0, 26, 27, 28, 29, 30, 31, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="--page-size 1 only, not 16"):
        cache_slots.assign_draft_cache_locs(
            (2,), torch.tensor([2, 0]), table, torch.tensor([4, 1]), *arguments, 2, 3, 16, 2, 4
        )


def test_draft_extend_gets_the_last_positions_and_the_last_token_of_each_request() -> None:
    tokens = torch.tensor([11, 12, 13, 21, 31, 32])
    positions, last = torch.empty(6, dtype=torch.long), torch.empty(3, dtype=torch.int32)
    draft_extend.create_extend_after_decode_spec_info(
        (3,), tokens, torch.tensor([10, 7, 5]), torch.tensor([3, 1, 2], dtype=torch.int32), positions, last, 4
    )
    assert positions.tolist() == [7, 8, 9, 6, 3, 4]
    assert last.tolist() == [13, 21, 32]


def test_cache_rows_are_all_read_before_one_is_written() -> None:
    buffers = [torch.arange(24, dtype=torch.float32).view(6, 2, 2).clone(), torch.arange(12).view(6, 2).clone()]
    before = [buffer.clone() for buffer in buffers]
    pointers = torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64)
    strides = torch.tensor([buffer[0].nbytes for buffer in buffers])
    targets, sources = torch.tensor([1, 2, 5, 0]), torch.tensor([2, 1, 1, 3])
    cache_rows.copy_all_layer_kv_cache_tiled((2, 1), pointers, strides, targets, sources, 3, 4, 128)
    for buffer, old in zip(buffers, before, strict=True):
        assert torch.equal(buffer, old[torch.tensor([0, 2, 1, 3, 4, 1])])


@pytest.fixture
def engine_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in finds the engine under the name that it has on a box."""
    monkeypatch.setitem(sys.modules, "cpu_engine", cpu_engine)
    monkeypatch.setitem(sys.modules, "cpu_engine.kernels", kernels)


@pytest.mark.usefixtures("engine_on_path")
def test_a_launch_runs_the_torch_version(monkeypatch: pytest.MonkeyPatch) -> None:
    @triton.jit(do_not_specialize=["n"])
    def double(x: object, n: object, BLOCK: constexpr) -> None:
        raise AssertionError("the body of a kernel is never run")

    seen = []
    name = (__name__, double.fn.__qualname__)
    monkeypatch.setitem(kernels.KERNELS, name, lambda grid, x, n, BLOCK: seen.append((grid, x, n, BLOCK)))
    double[(2,)](7, n=3, BLOCK=4, num_warps=8)
    assert seen == [((2,), 7, 3, 4)]
    assert double.__name__ == "double"


@pytest.mark.usefixtures("engine_on_path")
def test_a_kernel_without_torch_version_is_named() -> None:
    @triton.autotune(configs=[triton.Config({"BLOCK": 4}, num_warps=2)], key=["n"])
    @triton.jit
    def unknown_kernel(x: object) -> None: ...

    with pytest.raises(MissingKernel, match=r"WB-ENGINE-KERNEL: .*unknown_kernel.*test_engine_kernels\.py:\d+"):
        unknown_kernel[(1,)](1)
    with pytest.raises(TypeError, match=r"unknown_kernel is a triton function"):
        unknown_kernel(1)


def test_names_of_the_language_can_be_taken_and_not_called() -> None:
    with pytest.raises(TypeError, match=r"triton\.language\.exp runs inside kernels only"):
        exp(1)
    with pytest.raises(TypeError, match=r"triton\.language\.math\.exp2"):
        math.exp2(1)


def test_host_arithmetic() -> None:
    assert [triton.cdiv(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [triton.next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 1024)] == [1, 1, 2, 4, 4, 8, 1024]


def test_kernels_that_take_other_arguments_are_refused() -> None:
    @triton.jit
    def create_extend_after_decode_spec_info(verified_id: object, lengths: object) -> None: ...

    module = ModuleType("sglang.srt.speculative.spec_utils")
    vars(module)["create_extend_after_decode_spec_info"] = create_extend_after_decode_spec_info
    with pytest.raises(EngineMismatch, match=r"takes \(verified_id, lengths\)"):
        kernels.require_kernels(module)
    with pytest.raises(EngineMismatch, match="has no copy_all_layer_kv_cache_tiled"):
        kernels.require_kernels(ModuleType("sglang.srt.mem_cache.memory_pool"))
    kernels.require_kernels(ModuleType("elsewhere"))
