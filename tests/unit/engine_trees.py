"""Random draft trees, made and described by their definition: every node knows its parent and its token."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Candidate:
    """A token that the drafter proposed. ``number`` is its place in the order in which the drafter scored it."""

    number: int
    token: int
    score: float
    parent: Candidate | None
    ancestors: list[Candidate] = field(init=False)

    def __post_init__(self) -> None:
        self.ancestors = [] if self.parent is None else [*self.parent.ancestors, self.parent]


def draft(rng: random.Random, topk: int, steps: int, vocabulary: int) -> tuple[list[Candidate], list[int]]:
    """All candidates of a request, and SGLang's parent list: -1 for the root, then who was expanded."""
    candidates: list[Candidate] = []
    expanded: list[int] = [-1]

    def propose(parent: Candidate | None) -> list[Candidate]:
        tokens = rng.sample(range(vocabulary), topk)
        shares = sorted((rng.uniform(0.1, 0.9) for _ in tokens), reverse=True)
        score = 1.0 if parent is None else parent.score
        made = [
            Candidate(len(candidates) + place, token, score * share, parent)
            for place, (token, share) in enumerate(zip(tokens, shares, strict=True))
        ]
        candidates.extend(made)
        return made

    level = propose(None)
    for _ in range(1, steps):
        expanded.extend(candidate.number for candidate in level)
        children = [child for candidate in level for child in propose(candidate)]
        level = sorted(children, key=lambda child: -child.score)[:topk]
    return candidates, expanded


@dataclass
class Batch:
    """Trees of several requests, as SGLang passes them to the kernels. Node 0 of each is the verified token."""

    parent_list: Tensor
    selected_index: Tensor
    lengths: Tensor
    tokens: Tensor
    ancestors: list[list[set[int]]]
    parents: list[list[int]]


def batch(seed: int, requests: int, topk: int, steps: int, nodes: int, vocabulary: int = 7) -> Batch:
    """Random trees with ``nodes`` nodes each."""
    rng = random.Random(seed)
    lists, numbers, tokens, ancestors, parents = [], [], [], [], []
    for _ in range(requests):
        candidates, expanded = draft(rng, topk, steps, vocabulary)
        kept = sorted(sorted(candidates, key=lambda c: -c.score)[: nodes - 1], key=lambda c: c.number)
        node_of = {candidate.number: node for node, candidate in enumerate(kept, start=1)}
        lists.append(expanded)
        numbers.append([candidate.number for candidate in kept])
        tokens.append([rng.randrange(vocabulary), *(candidate.token for candidate in kept)])
        ancestors.append([{0}, *({0, node_of[c.number], *(node_of[a.number] for a in c.ancestors)} for c in kept)])
        parents.append([-1, *(0 if c.parent is None else node_of[c.parent.number] for c in kept)])
    lengths = [rng.randrange(1, 9) for _ in range(requests)]
    return Batch(
        torch.tensor(lists), torch.tensor(numbers), torch.tensor(lengths), torch.tensor(tokens), ancestors, parents
    )


def build(trees: Batch, topk: int, steps: int, mode: int = 0) -> dict[str, Tensor]:
    """Runs the kernel under test on fresh buffers, as speculative/eagle_utils.py:50 makes them."""
    from remote.lab.engine.sgl_kernel import build_tree_kernel_efficient

    requests, nodes = trees.tokens.shape
    width = int(trees.lengths.sum()) * nodes if mode == 0 else 0
    out = {
        "tree_mask": torch.full((width + requests * nodes * nodes,), True),
        "positions": torch.empty(requests * nodes, dtype=torch.long),
        "retrive_index": torch.full((requests, nodes), -1),
        "retrive_next_token": torch.full((requests, nodes), -1),
        "retrive_next_sibling": torch.full((requests, nodes), -1),
    }
    build_tree_kernel_efficient(
        trees.parent_list, trees.selected_index, trees.lengths, *out.values(), topk, steps, nodes, mode
    )
    return out
