"""The lab's CPU engine: verify at a temperature above 0, and the filters before it, against their definitions."""

from __future__ import annotations

import pytest
import torch
from engine_trees import batch, build
from torch import Tensor

from remote.lab.engine.sgl_kernel import (
    top_k_renorm_prob,
    top_p_renorm_prob,
    tree_speculative_sampling_target_only,
)

VOCABULARY = 5


def sample(
    topk: int, steps: int, nodes: int, probabilities: Tensor, *, seed: int, runs: int = 200, **thresholds: float
) -> Tensor:
    """Verifies one tree ``runs`` times with fresh coins. [runs, steps + 1] tokens, -1 behind the end of each run."""
    one = batch(seed, 1, topk, steps, nodes, vocabulary=VOCABULARY)
    out = build(one, topk, steps)
    generator = torch.Generator().manual_seed(seed)
    predicts = torch.full((runs * nodes,), -7, dtype=torch.int32)
    accept_index = torch.full((runs, steps + 1), -1, dtype=torch.int32)
    accepted = torch.empty(runs, dtype=torch.int32)
    by_node = probabilities[one.tokens[0]]  # the target's next token depends on the node's own token only
    tree_speculative_sampling_target_only(
        predicts,
        accept_index,
        accepted,
        one.tokens.repeat(runs, 1),
        torch.arange(runs * nodes).view(runs, nodes),
        out["retrive_next_token"].repeat(runs, 1),
        out["retrive_next_sibling"].repeat(runs, 1),
        torch.rand(runs, nodes, generator=generator),
        torch.rand(runs, generator=generator),
        by_node[None].expand(runs, -1, -1).contiguous(),
        torch.zeros(1),
        **thresholds,
    )
    taken = predicts.long()[accept_index.clamp(min=0).long()]
    tokens = torch.where(accept_index >= 0, taken, -1)
    assert (accept_index >= 0).sum(1).tolist() == (accepted + 1).tolist()
    return torch.cat([one.tokens[:, :1].expand(runs, 1), tokens], dim=1)


@pytest.mark.parametrize(("topk", "steps", "nodes"), [(1, 2, 3), (2, 2, 5), (3, 2, 8)])
def test_tokens_are_distributed_as_the_target_would_sample_them(topk: int, steps: int, nodes: int) -> None:
    """A Markov chain as target: after each token, the next one must follow the chain, whether drafted or sampled."""
    probabilities = torch.rand(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(5)).softmax(-1)
    probabilities[:, 1] = 0  # a token that never comes
    probabilities /= probabilities.sum(-1, keepdim=True)
    texts = sample(topk, steps, nodes, probabilities, seed=topk, runs=20_000)
    for place in range(2):
        present = texts[:, place + 1] >= 0
        before, after = texts[present, place], texts[present, place + 1]
        for token in before.unique().tolist():
            counts = torch.bincount(after[before == token], minlength=VOCABULARY)
            n, expected = int(counts.sum()), probabilities[token]
            if place == 1:  # a second token is there only after an accepted first one, which tells nothing about it
                assert n > 300
            slack = 4.5 * (expected * (1 - expected) / n).sqrt() + 1e-9
            assert ((counts / n - expected).abs() <= slack).all(), (place, token, counts, expected)
    assert int((texts == 1).sum()) == int((texts[:, 0] == 1).sum())


def test_a_certain_draft_is_accepted_and_an_impossible_one_is_not() -> None:
    always = torch.eye(VOCABULARY)[torch.arange(VOCABULARY)]  # each token repeats itself
    texts = sample(1, 3, 4, always, seed=4)
    assert (texts == texts[:, :1]).logical_or(texts == -1).all()


def test_a_threshold_accepts_what_is_probable_enough() -> None:
    even = torch.full((VOCABULARY, VOCABULARY), 1 / VOCABULARY)
    texts = sample(1, 2, 3, even, seed=6, threshold_single=0.2)
    assert (texts >= 0).all()


def test_a_coin_in_the_rounding_of_the_last_child_still_gives_a_token() -> None:
    """All of the probability lies on rejected children: the token is one of them, not nonsense."""
    predicts, accept_index = torch.full((2,), -7, dtype=torch.int32), torch.full((1, 2), -1, dtype=torch.int32)
    tree_speculative_sampling_target_only(
        predicts,
        accept_index,
        torch.empty(1, dtype=torch.int32),
        torch.tensor([[0, 1]]),
        torch.tensor([[0, 1]]),
        torch.tensor([[1, -1]]),
        torch.tensor([[-1, -1]]),
        torch.tensor([[1.0, 1.0]]),
        torch.tensor([0.5]),
        torch.tensor([[[0.0, 0.9999999, 0.0], [1.0, 0.0, 0.0]]]),
        torch.zeros(1),
    )
    assert (predicts[0], accept_index.tolist()) == (1, [[0, -1]])


def test_top_k_keeps_the_k_most_probable() -> None:
    probs = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.3, 0.2]])
    kept = top_k_renorm_prob(probs, torch.tensor([2, 1, 1 << 30]))
    torch.testing.assert_close(kept[0], torch.tensor([0.0, 4 / 7, 3 / 7, 0.0]))
    torch.testing.assert_close(kept[1:], probs[1:])  # level with the first; and all
    assert top_k_renorm_prob(probs, torch.tensor([1 << 30] * 3)) is probs


def test_top_p_keeps_tokens_until_p_is_reached() -> None:
    probs = torch.tensor([[0.1, 0.4, 0.3, 0.2]] * 3)
    kept = top_p_renorm_prob(probs, torch.tensor([0.4, 0.5, 1.0]))
    torch.testing.assert_close(kept[0], torch.tensor([0.0, 1.0, 0.0, 0.0]))
    torch.testing.assert_close(kept[1], torch.tensor([0.0, 4 / 7, 3 / 7, 0.0]))
    torch.testing.assert_close(kept[2], probs[2])
