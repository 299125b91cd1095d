"""The way back: ids that tap given boundaries, found by trial and proved by the reading itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from helpers.source.setter.reading import Resolution, resolve
from helpers.source.setter.tree import SourceTree


def ids_for(
    tree: SourceTree, model: str, boundaries: Sequence[int], num_layers: int, *, architecture: str | None = None
) -> Resolution | None:
    """The reading of ids that tap these boundaries in this order; None where no ids were found that do.

    A rule may depend on the ids themselves (on their first, on their largest), so what is tried is shifts of the
    boundaries, and then the same in other orders: the slots come out in the order of the layers anyhow.

    Raises:
        UsageError: ``WB-SETTER-MISSING``, ``WB-SETTER-UNREAD``.
    """
    wanted = tuple(boundaries)
    if list(wanted) != sorted(set(wanted)):
        return None  # Taps are taken from the first layer to the last, each once.
    for ids in candidates(wanted):
        found = resolve(tree, model, ids, num_layers, architecture=architecture)
        if found.boundaries == wanted and not any(
            t.code in ("refused", "never-fires", "fails-at-layer") for t in found.traps
        ):
            return found
    return None


def candidates(wanted: tuple[int, ...]) -> Iterator[list[int]]:
    """Ids to try, the likeliest first."""
    shifts = [[b - shift for b in wanted] for shift in (0, 1, 2, -1)]
    yield from shifts
    if len(wanted) > 1:
        for ids in shifts[:2]:
            yield [*ids[1:], ids[0]]
