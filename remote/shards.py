"""Which rows each rank of a capture holds, where the ranks hold other tokens each.

Two ways lead there. An A2A MoE backend scatters a pass: each rank knows all its tokens, but at some points holds the
states of one stretch of them. Data-parallel attention gives each rank requests of its own, and passes of its own. Where
neither is the case, every rank holds every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from remote.capture_rows import Plan, Row
from remote.chunks import CaptureFailed, Chunk

Place = tuple[int, int]  # (number of the request, position)


@dataclass(frozen=True)
class Share:
    """One rank's part: the rows that it keeps, in the order of the capture, and where its stretch of a pass starts.

    ``starts``: for a pass that was scattered, the row of the pass that is the first of this rank's scattered tensors.
    """

    rank: int
    chunks: list[Chunk]
    rows: list[Row]
    starts: dict[int, int] = field(default_factory=dict)

    def index(self, chunk: Chunk, name: str, rows: Sequence[int]) -> list[int]:
        """Where rows of a pass lie in a tensor of this rank's chunk."""
        start = self.starts.get(chunk.step, 0) if scattered(chunk, name) else 0
        return [row - start for row in rows]

    def holds(self, chunk: Chunk, name: str, row: int) -> bool:
        """Whether a row of a pass is among those of a tensor."""
        return 0 <= self.index(chunk, name, [row])[0] < chunk.tensors[name][1][0]


def scattered(chunk: Chunk, name: str) -> bool:
    """Whether a tensor has fewer rows than its pass has tokens."""
    return chunk.tensors[name][1][0] < len(chunk.positions)


def share_out(chunks: dict[int, list[Chunk]], plans: dict[int, Plan]) -> list[Share] | None:
    """What each rank keeps; None where the ranks' rows are neither the same nor of different requests.

    Raises:
        CaptureFailed: WB-CAPTURE-SHARD where the stretches of a pass do not make it whole.
    """
    places = {rank: [(row.request, row.position) for row in plan.rows] for rank, plan in plans.items()}
    ranks = sorted(places)
    if all(places[rank] == places[ranks[0]] for rank in ranks):
        return stretches(chunks, plans)
    if sum(map(len, places.values())) > len({place for part in places.values() for place in part}):
        return None
    return [Share(rank, chunks[rank], list(plans[rank].rows)) for rank in ranks]


def stretches(chunks: dict[int, list[Chunk]], plans: dict[int, Plan]) -> list[Share]:
    """Ranks that saw the same tokens: each keeps its stretch of a scattered pass, and rank 0 all of the others."""
    ranks = sorted(chunks)
    cuts = {step: cut([chunks[rank][step] for rank in ranks]) for step in range(len(chunks[ranks[0]]))}
    if not any(cuts.values()):
        return [Share(rank, chunks[rank], list(plans[rank].rows)) for rank in ranks]
    shares = []
    for place, rank in enumerate(ranks):
        mine = {step: stretch[place] if stretch else None for step, stretch in cuts.items()}
        rows = []
        for row in plans[rank].rows:
            stretch = mine[row.step]
            if place == 0 if stretch is None else stretch[0] <= row.row < stretch[1]:
                rows.append(row)
        starts = {step: stretch[0] for step, stretch in mine.items() if stretch is not None}
        shares.append(Share(rank, chunks[rank], rows, starts))
    return shares


def cut(passes: Sequence[Chunk]) -> list[tuple[int, int]] | None:
    """(first row, row after the last) of each rank in one pass, in the order of ranks; None where it is not scattered.

    An all-gather puts the ranks' rows behind each other, so that is where they come from; what is beyond is padding.
    """
    sizes: list[int] = []
    for chunk in passes:
        found = {chunk.tensors[name][1][0] for name in chunk.tensors if scattered(chunk, name)}
        if len(found) > 1:
            raise not_whole(chunk, f"tensors of {sorted(found)} rows")
        sizes.append(found.pop() if found else -1)
    if all(size < 0 for size in sizes):
        return None
    total = len(passes[0].positions)
    if any(size < 0 for size in sizes) or sum(sizes) < total:
        raise not_whole(passes[0], f"the ranks hold {[total if size < 0 else size for size in sizes]} rows")
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [(min(end - size, total), min(end, total)) for size, end in zip(sizes, ends, strict=True)]


def not_whole(chunk: Chunk, what: str) -> CaptureFailed:
    return CaptureFailed(
        "WB-CAPTURE-SHARD",
        f"{what} of a pass of {len(chunk.positions)} tokens ({chunk.path.name})",
        expected="a row of one width for each token: on each rank, or on all of them together",
        next="capture without context parallelism; read the shapes of the chunks on the box",
    )
