"""Lines of a log as it comes: block by block, whatever its size, its bytes and its line ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: A longer line is cut: no line that is read here comes near it, and memory stays bounded.
LONGEST = 1 << 20


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        number: from 1, as an editor counts them; the pieces between carriage returns share one.
        garbled: it held bytes that are no UTF-8 (each stands as U+FFFD in ``text``).
    """

    number: int
    text: str
    garbled: bool = False


def split_lines(blocks: Iterable[bytes]) -> Iterator[Line]:
    r"""Splits at line feeds and at carriage returns, which a progress bar leaves.

    >>> [(line.number, line.text) for line in split_lines([b"40%\r80%\rdone\nnex", b"t\n"])]
    [(1, '40%'), (1, '80%'), (1, 'done'), (2, 'next')]
    """
    rest, number = b"", 1
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for raw in whole:
            yield from _pieces(raw, number)
            number += 1
        if len(rest) > LONGEST:  # the tail of an endless line is not kept
            rest = rest[:LONGEST]
    if rest:
        yield from _pieces(rest, number)


def _pieces(raw: bytes, number: int) -> Iterator[Line]:
    for piece in raw.split(b"\r"):
        if not piece.strip():
            continue
        try:
            yield Line(number, piece[:LONGEST].decode("utf-8"))
        except UnicodeDecodeError:
            yield Line(number, piece[:LONGEST].decode("utf-8", "replace"), garbled=True)
