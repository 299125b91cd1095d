"""Copying rows inside a key-value cache."""

from __future__ import annotations

import ctypes

from torch import Tensor


def copy_all_layer_kv_cache_tiled(
    grid: tuple[int, ...],
    data_ptrs: Tensor,
    strides: Tensor,
    tgt_loc_ptr: Tensor,
    src_loc_ptr: Tensor,
    num_locs: int,
    num_locs_upper: int,
    BYTES_PER_TILE: int,
) -> None:
    """For mem_cache/memory_pool.py:1993. Launched by :789 to warm up the drafter's cache, whatever the device, and by
    :1009 where a draft tree is moved between pages.

    Args:
        data_ptrs: uint64 [buffers], the address of each layer's key or value buffer.
        strides: [buffers], bytes of one row.
        tgt_loc_ptr, src_loc_ptr: [at least num_locs], rows; all are read before the first is written.
        num_locs: how many rows to copy.
    """
    del grid, num_locs_upper, BYTES_PER_TILE
    targets, sources = tgt_loc_ptr[:num_locs].tolist(), src_loc_ptr[:num_locs].tolist()
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + source * stride, stride) for source in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(base + target * stride, row, stride)
