"""Whether the ranks of a capture hold the same: bit-equal replicas are what tensor parallelism promises at a tap."""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field

from helpers.tensors.capture import Capture, Rank
from helpers.wiring.findings import Finding, error

# Replicas that were reduced in another order differ in their last bits; terms that were not reduced differ by far more.
PARTIAL = 0.01


class RankView(BaseModel):
    """What the ranks' copies have in common. ``differing``: a tensor's largest relative difference to rank 0's."""

    model_config = ConfigDict(frozen=True)

    ranks: int
    equal: bool
    same_tokens: bool = True
    differing: dict[str, float] = Field(default_factory=dict)
    terms_differ: dict[str, bool] | None = None


def compare_ranks(capture: Capture) -> RankView:
    """Compare every rank with rank 0, tensor by tensor; equal hashes need no reading."""
    first, *others = capture.ranks
    hashes = {file.rank: file.sha256 for file in capture.info.files}
    differing: dict[str, float] = {}
    same_tokens = True
    for rank in others:
        if hashes[rank.rank] == hashes[first.rank]:
            continue
        keys = ("token_ids", "positions", "request")
        if not all(torch.equal(first.tensor(key), rank.tensor(key)) for key in keys):
            same_tokens = False
            continue
        for name in sorted(first.entries.keys() & rank.entries.keys() - set(keys)):
            apart = difference(first, rank, name)
            if apart > 0:
                differing[name] = max(apart, differing.get(name, 0.0))
    terms = None
    if any(name.startswith("residual.") for name in first.entries):
        terms = {kind: any(name.startswith(f"{kind}.") for name in differing) for kind in ("out", "residual")}
    return RankView(
        ranks=len(capture.ranks),
        equal=same_tokens and not differing,
        same_tokens=same_tokens,
        differing=differing,
        terms_differ=terms,
    )


def difference(first: Rank, other: Rank, name: str) -> float:
    """Length of the difference of two ranks' tensors, in lengths of the first; infinite where the shapes differ."""
    a, b = first.tensor(name), other.tensor(name)
    if a.shape != b.shape:
        return float("inf")
    if torch.equal(a, b):
        return 0.0
    a, b = a.double(), b.double()
    return max(float((a - b).norm() / a.norm().clamp(min=1e-300)), 1e-12)


def rank_findings(view: RankView) -> list[Finding]:
    """Findings where the ranks hold different things."""
    if not view.same_tokens:
        return [error("rank-token-shard", None, "the ranks hold rows of different tokens", ranks=view.ranks)]
    taps = {name: value for name, value in view.differing.items() if name.split(".")[0] in ("boundary", "feed")}
    far = {name: value for name, value in taps.items() if value > PARTIAL}
    if not far:
        return []
    worst = max(far, key=lambda name: far[name])
    summary = f"the same tokens have other values on each rank ({worst}: {far[worst]:.1%} apart): not yet reduced"
    return [error("rank-partial-sum", None, summary, relative_difference=far, terms_differ=view.terms_differ)]
