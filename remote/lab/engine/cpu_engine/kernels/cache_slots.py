"""Writing cache slots into the rows of ``req_to_token``, the table [requests, positions] of slots."""

from __future__ import annotations

from torch import Tensor

Grid = tuple[int, ...]


def assign_req_to_token_pool(
    grid: Grid,
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    bs_upper: int,
) -> None:
    """For speculative/spec_utils.py:88, launched for eagle_info.py:139 before verify and for :510 and :542 after it.

    Args:
        req_pool_indices: [batch], the table row of each request.
        req_to_token: [requests, pool_len], written at positions start..end of each row.
        start_offset, end_offset: [batch].
        out_cache_loc: [sum of end - start], the slots of all requests, one after the other.
    """
    del grid, pool_len, bs_upper
    taken = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True):
        req_to_token[row, start:end] = out_cache_loc[taken : taken + end - start]
        taken += end - start


def assign_draft_cache_locs(
    grid: Grid,
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    extend_lens: Tensor,
    num_new_pages_per_topk: Tensor,
    out_cache_loc: Tensor,
    source_cache_loc: Tensor | None,
    target_cache_loc: Tensor | None,
    last_page_lens_cumsum: Tensor | None,
    duplicate_cache_len: int,
    pool_len: int,
    topk: int,
    speculative_num_steps: int,
    page_size: int,
    bs_upper: int,
    iter_upper: int,
) -> None:
    """For speculative/spec_utils.py:142, launched by eagle_worker.py:487 before the draft steps.

    Each request gets ``topk * speculative_num_steps`` slots behind its sequence, branch after branch.

    Args:
        req_pool_indices, seq_lens: [batch].
        req_to_token: [requests, pool_len], written.
        out_cache_loc: [batch * topk * speculative_num_steps].

    Raises:
        ValueError: pages of more than one token with a tree, where branches would have to copy their last page.
    """
    del grid, extend_lens, num_new_pages_per_topk, source_cache_loc, target_cache_loc, last_page_lens_cumsum
    del duplicate_cache_len, pool_len, bs_upper, iter_upper
    if page_size != 1 and topk != 1:
        raise ValueError(f"the CPU engine drafts trees with --page-size 1 only, not {page_size} at topk {topk}")
    slots = out_cache_loc.view(len(seq_lens), topk * speculative_num_steps)
    for row, length, new in zip(req_pool_indices.tolist(), seq_lens.tolist(), slots, strict=True):
        req_to_token[row, length : length + len(new)] = new
