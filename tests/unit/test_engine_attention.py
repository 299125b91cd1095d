"""The lab's CPU engine: attention of every mode against softmax attention, query by query."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from remote.lab.engine.cpu_engine.attention.attend import attend
from remote.lab.engine.cpu_engine.attention.plan import (
    Group,
    plan_decode,
    plan_draft_step,
    plan_extend,
    plan_verify,
)

SLOTS = 64
LENGTHS = [5, 9, 1]


def table(width: int = 40) -> Tensor:
    """[requests, positions] of distinct cache rows, out of order, as SGLang's allocator leaves them."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randperm(SLOTS * 4, generator=generator)[: len(LENGTHS) * width] + 1
    return rows.view(len(LENGTHS), width).to(torch.int32)


def plainly(query: Tensor, keys: Tensor, values: Tensor, seen: list[list[int]], scale: float) -> Tensor:
    """The definition: one query, one head at a time, in float64."""
    shared = query.shape[1] // keys.shape[1]
    out = torch.zeros(len(seen), query.shape[1], values.shape[2], dtype=torch.float64)
    for token, rows in enumerate(seen):
        for head in range(query.shape[1]):
            scores = keys[rows, head // shared].double() @ query[token, head].double() * scale
            out[token, head] = scores.softmax(0) @ values[rows, head // shared].double()
    return out


def check(groups: list[Group], seen: list[list[int]], dtype: torch.dtype = torch.float32) -> None:
    """Latent attention (one key head, values its first columns), grouped and plain heads."""
    generator = torch.Generator().manual_seed(2)
    for heads, key_heads, width, latent in [(4, 1, 20, 16), (6, 2, 8, 0), (3, 3, 8, 0)]:
        keys = torch.randn(SLOTS * 4 + 1, key_heads, width, generator=generator).to(dtype)
        values = torch.randn(keys.shape, generator=generator).to(dtype)
        if latent:
            values = keys[..., :latent]
        query = torch.randn(len(seen) + 2, heads, width, generator=generator).to(dtype)  # two rows of padding
        out = attend(query, keys, values, groups, 0.3)
        expected = plainly(query, keys, values, seen, 0.3)
        tolerance = 1e-5 if dtype == torch.float32 else 3e-2
        torch.testing.assert_close(out[: len(seen)].double(), expected, atol=tolerance, rtol=tolerance)
        assert not out[len(seen) :].any()
        assert out.dtype == dtype


def test_decode_sees_all_tokens_of_its_request() -> None:
    rows = table()
    seen = [rows[request, :length].tolist() for request, length in enumerate(LENGTHS)]
    check(plan_decode(rows, torch.tensor(LENGTHS)), seen)
    check(plan_decode(rows[:1], torch.tensor(LENGTHS[:1])), seen[:1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("new", [[5, 9, 1], [2, 3, 1], [1, 1, 1]])
def test_extend_sees_no_later_token(new: list[int], dtype: torch.dtype) -> None:
    rows = table()
    seen = [
        rows[request, : length - queries + place + 1].tolist()
        for request, (length, queries) in enumerate(zip(LENGTHS, new, strict=True))
        for place in range(queries)
    ]
    check(plan_extend(rows, LENGTHS, new), seen, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_verify_sees_what_the_tree_mask_says(dtype: torch.dtype) -> None:
    rows, nodes = table(), 4
    ancestors = [{0}, {0, 1}, {0, 2}, {0, 1, 3}]
    masks, seen = [], []
    for request, length in enumerate(LENGTHS):
        own = [[other in ancestors[node] for other in range(nodes)] for node in range(nodes)]
        masks.append(torch.tensor([[True] * length + line for line in own]).flatten())
        seen += [rows[request, : length + nodes][torch.tensor([True] * length + line)].tolist() for line in own]
    check(plan_verify(rows, LENGTHS, nodes, torch.cat(masks)), seen, dtype)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("topk", [1, 3])
def test_a_draft_step_sees_its_own_branch_so_far(topk: int, step: int) -> None:
    rows, steps = table(), 3
    seen = [
        rows[request, :length].tolist()
        + rows[request, length + branch * steps : length + branch * steps + step + 1].tolist()
        for request, length in enumerate(LENGTHS)
        for branch in range(topk)
    ]
    check(plan_draft_step(rows, torch.tensor(LENGTHS), step, steps, topk), seen)


def test_rows_that_nobody_sees_are_the_padding_row() -> None:
    """Slots behind a request's end may be another's, or free and hold anything."""
    (group,) = plan_decode(table(), torch.tensor(LENGTHS))
    assert group.mask is not None
    assert not group.rows[~group.mask[:, 0]].any()


def test_a_mask_is_made_once_for_all_layers() -> None:
    (group,) = plan_decode(table(), torch.tensor(LENGTHS))
    assert group.bias(4, torch.float32) is group.bias(4, torch.float32)
    assert plan_decode(table(), torch.tensor([4, 4, 4]))[0].bias(4, torch.float32) is None
