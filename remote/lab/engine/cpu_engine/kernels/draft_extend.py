"""What the drafter needs to read the tokens that verify accepted."""

from __future__ import annotations

import torch
from torch import Tensor


def create_extend_after_decode_spec_info(
    grid: tuple[int, ...],
    verified_id: Tensor,
    seq_lens: Tensor,
    accept_lens: Tensor,
    positions: Tensor,
    new_verified_id: Tensor,
    bs_upper: int,
) -> None:
    """For speculative/spec_utils.py:62, launched by eagle_info.py:716.

    Args:
        verified_id: [sum of accept_lens], the accepted tokens and the bonus token of all requests.
        seq_lens: [batch], with the accepted tokens.
        accept_lens: [batch], the bonus token counted.
        positions: [sum of accept_lens], written: the last ``accept_lens`` positions of each sequence.
        new_verified_id: [batch], written: the last token of each request.
    """
    del grid, bs_upper
    ends = accept_lens.cumsum(0)
    first = torch.repeat_interleave(seq_lens - ends, accept_lens)
    positions[: len(first)] = first + torch.arange(len(first))
    new_verified_id.copy_(verified_id[ends - 1])
