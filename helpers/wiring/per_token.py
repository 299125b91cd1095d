"""Slots, trained features and the ladder token by token, on a bounded number of tokens: what a reader looks at.

Where more tokens are paired than are asked for, every s-th of them is taken, counted through all requests; what is
said of "all tokens" then holds of those. Centred means without the mean over the tokens that were taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.tensors.align import Pairing
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Dump
from helpers.tensors.statistics import norms, unit
from helpers.tensors.view import View
from helpers.wiring.features import Aligned, align_features, blocks, check_width, nothing_shared

TOKENS = 512
Side = Literal["served", "trained"]


@dataclass(frozen=True)
class TokenView:
    """N tokens of the paired ones, in the order of the requests; token 0 of each is left out.

    The features are the served slots, the trained slots and the boundaries of ``ladder``, in this order (S in all);
    ``cosine`` and ``centred`` hold each of the K + L slots against all of them.

    Attributes:
        total: how many tokens are paired. stride: every so many-th of them is here.
        request, position, token_ids: which token a row is. served_rows: its row in the capture.
    """

    served_slots: int
    trained_slots: int
    ladder: list[int]
    total: int
    stride: int
    request: Int64[Tensor, " N"]
    position: Int64[Tensor, " N"]
    token_ids: Int64[Tensor, " N"]
    served_rows: Int64[Tensor, " N"]
    norms: Float[Tensor, "N S"]
    cosine: Float[Tensor, "N F S"]
    centred: Float[Tensor, "N F S"]

    def __len__(self) -> int:
        return len(self.position)

    @property
    def rule(self) -> str:
        """Which tokens these are, in words."""
        if self.stride == 1:
            return f"all {len(self)} paired tokens"
        return f"{len(self)} of {self.total} paired tokens, one in {self.stride}"

    def place(self, side: Side, slot: int) -> int:
        """Where a slot stands among the features."""
        return slot if side == "served" else self.served_slots + slot

    def against_ladder(self, side: Side, slot: int) -> Float[Tensor, "N B"]:
        """Centred cosine of a slot with each boundary of the ladder."""
        return self.centred[:, self.place(side, slot), self.served_slots + self.trained_slots :]

    def nearest(self, side: Side, slot: int) -> list[int]:
        """The boundary that each token's feature is closest to; empty without a ladder."""
        if not self.ladder:
            return []
        return [self.ladder[at] for at in self.against_ladder(side, slot).argmax(dim=1).tolist()]


@dataclass(frozen=True)
class Parting:
    """Where the two sides of a slot are first closest to different boundaries.

    Attributes:
        at: the row of the view, None where they never are. tokens: on how many of ``of`` tokens they are.
        trained, served: the boundary that is nearest on most tokens.
    """

    slot: int
    trained: int
    served: int
    at: int | None
    tokens: int
    of: int


def look_at_tokens(
    capture: Capture,
    dump: Dump,
    aligned: Aligned | None = None,
    *,
    tokens: int = TOKENS,
    check: Callable[[], None] = lambda: None,
) -> TokenView:
    """Norms and cosines of up to ``tokens`` tokens. Reads only their rows, twice, in pieces of bounded size.

    Args:
        check: called between pieces; what it raises ends the reading.

    Raises:
        UsageError: WB-ALIGN-NOTHING where nothing is paired, or nothing of it is finite; WB-DUMP-HIDDEN.
    """
    check_width(capture, dump)
    aligned = align_features(capture, dump) if aligned is None else aligned
    thinned, total, stride = thin(aligned.pairings, tokens)
    view, slots = aligned.view, aligned.view.slots or 0
    total_of, count = torch.zeros(0), 0
    for stack, _, _ in pieces(aligned, thinned, dump):
        check()
        total_of = stack.double().sum(dim=0) + (total_of if count else 0)
        count += len(stack)
    if not count:
        raise nothing_shared(capture, dump)
    mean = (total_of / count).float()
    found: list[tuple[Tensor, ...]] = []
    for stack, pairing, place in pieces(aligned, thinned, dump):
        check()
        head = slots + dump.slots
        raw, flat = unit(stack), unit(stack - mean)
        rows = pairing.served[place]
        found.append(
            (
                rows,
                pairing.trained[place],
                norms(stack),
                torch.einsum("nfh,nsh->nfs", raw[:, :head], raw),
                torch.einsum("nfh,nsh->nfs", flat[:, :head], flat),
            )
        )
    rows, position, length, cosine, centred = (torch.cat(parts) for parts in zip(*found, strict=True))
    return TokenView(
        served_slots=slots,
        trained_slots=dump.slots,
        ladder=aligned.taps.ladder,
        total=total,
        stride=stride,
        request=view.request[rows].long(),
        position=position,
        token_ids=view.token_ids[rows],
        served_rows=rows,
        norms=length,
        cosine=cosine,
        centred=centred,
    )


def thin(pairings: list[Pairing], tokens: int) -> tuple[list[Pairing], int, int]:
    """Every s-th paired token, so that there are ``tokens`` at most; how many there were, and s."""
    total = sum(len(pairing) for pairing in pairings)
    stride = max(1, -(-total // tokens))
    kept, at = [], 0
    for pairing in pairings:
        keep = (torch.arange(len(pairing)) + at) % stride == 0
        at += len(pairing)
        if keep.any():
            kept.append(pairing.where(keep))
    return kept, total, stride


def pieces(aligned: Aligned, thinned: list[Pairing], dump: Dump) -> Iterator[tuple[Tensor, Pairing, Tensor]]:
    """Stacks [n, S, H] of finite rows, the pairing that they are of, and their places in it."""
    features = aligned.view.slots or 0
    wanted = features + dump.slots + len(aligned.taps.ladder)
    for pairing in thinned:
        for stack, trained in blocks(Aligned(aligned.taps, [pairing], 0), dump, count=False):
            yield stack[:, :wanted], pairing, torch.searchsorted(pairing.trained, trained)


def partings(view: TokenView) -> list[Parting]:
    """For each slot of both sides where they part; empty without a ladder."""
    found = []
    for slot in range(min(view.served_slots, view.trained_slots) if view.ladder else 0):
        trained, served = view.nearest("trained", slot), view.nearest("served", slot)
        apart = [at for at, pair in enumerate(zip(trained, served, strict=True)) if pair[0] != pair[1]]
        most = [max(set(side), key=side.count) for side in (trained, served)]
        found.append(Parting(slot, most[0], most[1], apart[0] if apart else None, len(apart), len(view)))
    return found


def rank_difference(view: View, tokens: TokenView, rank: int) -> Float[Tensor, "N B"]:
    """How far a rank's taps are from rank 0's, token by token and boundary by boundary, in lengths of rank 0's.

    Raises:
        ValueError: the ranks hold other tokens, or there is no such rank.
    """
    ranks = view.capture.ranks
    if view.rows_kind != "replicated" or not 0 < rank < len(ranks):
        raise ValueError(f"rank {rank} of {len(ranks)} ({view.rows_kind}) cannot be held against rank 0 row by row")
    columns = []
    for boundary in view.boundaries:
        name = f"boundary.{boundary:03d}"
        ours, theirs = (one.rows(name, tokens.served_rows).float() for one in (ranks[0], ranks[rank]))
        if ours.shape != theirs.shape:
            columns.append(torch.full((len(tokens),), float("nan")))
            continue
        length = torch.linalg.vector_norm(ours, dim=1).clamp(min=1e-12)
        columns.append(torch.linalg.vector_norm(theirs - ours, dim=1) / length)
    return torch.stack(columns, dim=1) if columns else torch.zeros(len(tokens), 0)
