"""The lab's CPU engine: draft trees and greedy verify against their definitions."""

from __future__ import annotations

import pytest
import torch
from engine_trees import Batch, batch, build

from remote.lab.engine.sgl_kernel import build_tree_kernel_efficient, verify_tree_greedy

SHAPES = [(1, 3, 4), (1, 1, 2), (2, 3, 6), (4, 3, 8), (3, 4, 16)]


@pytest.mark.parametrize(("topk", "steps", "nodes"), SHAPES)
@pytest.mark.parametrize("mode", [0, 1])
def test_a_node_sees_the_verified_tokens_and_its_ancestors(topk: int, steps: int, nodes: int, mode: int) -> None:
    trees = batch(topk * 100 + nodes, 3, topk, steps, nodes)
    out = build(trees, topk, steps, mode)
    start = 0
    for request, length in enumerate(trees.lengths.tolist()):
        prefix = length if mode == 0 else 0
        mask = out["tree_mask"][start : start + nodes * (prefix + nodes)].view(nodes, prefix + nodes)
        start += mask.numel()
        assert mask[:, :prefix].all()
        for node in range(nodes):
            assert set(mask[node, prefix:].nonzero().flatten().tolist()) == trees.ancestors[request][node]
            depth = len(trees.ancestors[request][node]) - 1
            assert out["positions"].view(-1, nodes)[request, node] == length + depth
    assert start == out["tree_mask"].numel()


@pytest.mark.parametrize(("topk", "steps", "nodes"), SHAPES)
def test_links_lead_to_every_child_in_node_order(topk: int, steps: int, nodes: int) -> None:
    trees = batch(topk * 200 + nodes, 3, topk, steps, nodes)
    out = build(trees, topk, steps)
    assert out["retrive_index"].tolist() == torch.arange(3 * nodes).view(3, nodes).tolist()
    for request, parents in enumerate(trees.parents):
        for node in range(nodes):
            found, child = [], int(out["retrive_next_token"][request, node])
            while child != -1:
                found.append(child)
                child = int(out["retrive_next_sibling"][request, child])
            assert found == [other for other in range(nodes) if parents[other] == node]


def test_the_bit_packed_mask_is_refused() -> None:
    trees = batch(1, 1, 1, 3, 4)
    with pytest.raises(ValueError, match="mask mode 2"):
        build(trees, 1, 3, mode=2)


def verify(trees: Batch, topk: int, steps: int, choices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Runs the kernel under test on fresh buffers, as speculative/eagle_info.py:261 makes them."""
    requests, nodes = trees.tokens.shape
    out = build(trees, topk, steps)
    predicts = torch.full((requests * nodes + 1,), -7, dtype=torch.int32)
    accept_index = torch.full((requests, steps + 1), -1, dtype=torch.int32)
    accepted = torch.empty(requests, dtype=torch.int32)
    links = out["retrive_index"], out["retrive_next_token"], out["retrive_next_sibling"]
    verify_tree_greedy(predicts, accept_index, accepted, trees.tokens, *links, choices)
    return predicts, accept_index, accepted


@pytest.mark.parametrize(("topk", "steps", "nodes"), SHAPES)
def test_greedy_verify_takes_the_longest_path_that_the_target_would_write(topk: int, steps: int, nodes: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    lengths = set()
    for seed in range(40):
        trees = batch(seed, 2, topk, steps, nodes, vocabulary=max(topk, 2))
        choices = torch.randint(0, max(topk, 2), trees.tokens.shape, generator=generator)
        predicts, accept_index, accepted = verify(trees, topk, steps, choices)
        for request in range(2):
            path = [0]
            while True:  # the definition: follow the child whose token is the target's choice
                step = [
                    node
                    for node in range(nodes)
                    if trees.parents[request][node] == path[-1]
                    and trees.tokens[request, node] == choices[request, path[-1]]
                ]
                if not step:
                    break
                path.append(step[0])
            lengths.add(len(path))
            assert int(accepted[request]) == len(path) - 1
            rows = [request * nodes + node for node in path]
            assert accept_index[request].tolist() == rows + [-1] * (steps + 1 - len(path))
            assert predicts[rows].tolist() == [int(choices[request, node]) for node in path]
    assert {1, 2} <= lengths  # nothing accepted and something accepted both came up


def test_a_chain_is_accepted_whole_and_not_beyond() -> None:
    trees = batch(3, 1, 1, 3, 4)
    choices = torch.cat([trees.tokens[:, 1:], torch.tensor([[5]])], dim=1)
    predicts, accept_index, accepted = verify(trees, 1, 3, choices)
    assert (accepted.tolist(), accept_index.tolist()) == ([3], [[0, 1, 2, 3]])
    assert predicts[:4].tolist() == choices[0].tolist()


def test_kernels_take_sglangs_argument_order() -> None:
    """speculative/eagle_utils.py:137 passes them by position."""
    code = build_tree_kernel_efficient.__code__
    assert code.co_varnames[:12] == (
        "parent_list",
        "selected_index",
        "verified_seq_len",
        "tree_mask",
        "positions",
        "retrive_index",
        "retrive_next_token",
        "retrive_next_sibling",
        "topk",
        "depth",
        "draft_token_num",
        "tree_mask_mode",
    )
