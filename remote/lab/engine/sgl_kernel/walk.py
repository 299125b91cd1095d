"""Walking a draft tree by first child and next sibling."""

from __future__ import annotations

from collections.abc import Iterator


def children(node: int, next_token: list[int], next_sibling: list[int]) -> Iterator[int]:
    """The children of a node, best first."""
    child = next_token[node]
    while child != -1:
        yield child
        child = next_sibling[child]
