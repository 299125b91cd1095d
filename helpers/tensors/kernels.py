"""Compiled loops over rows of numbers as they lie in a file: sums, and inner products of two stacks with hashes.

numba compiles them; nothing but `fused` imports this module. A row is widened to float32 in registers: the bits of a
bfloat16 are the upper half of a float32's, so an unsigned integer is shifted up (by 16; float32 itself by 0) and its
bits are taken for a float. Lanes add up in float32 over one tile of features, tiles in float64. A tile's rows stay in
the first-level cache, those of neighbouring tokens in a ring, as shifts need them again.

Indices that LLVM cannot see to be positive are unsigned: numba would ask at each step whether they count from the end,
and no loop would become vector code. Helpers take whole arrays and places, since a slice costs two atomic operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])
Array = Any  # a numpy array; numba compiles for its dtype, and annotations are not looked at
# Sums may be taken in any order, which vectors need; NaN and infinity stay what they are.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "nsz", "contract"}}
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
NEAR = 8  # tokens that are worked on together: both sides' rows stay in the second-level cache from tile to tile


def inner(function: F) -> F:
    """Compiled as a part of those that call it."""
    return cast(F, njit(**INNER)(inspect.unwrap(function)))


def entry(function: F) -> F:
    """Compiled when it is first called, and kept beside this file, or in the user's cache where that is read-only."""
    plain = inspect.unwrap(function)
    try:
        return cast(F, njit(cache=True, **OPTIONS)(plain))
    except RuntimeError:  # no folder to keep it in: it is compiled anew in each process
        return cast(F, njit(**OPTIONS)(plain))


@inner
def value(x: Array, at: Any, shift: Any) -> Any:
    """A number in float32, from its bits."""
    return np.uint32(np.uint32(x[at]) << (shift & np.uint32(31))).view(np.float32)


@inner
def load(x: Array, at: Any, count: int, shift: Any, out: Array, row: int) -> Any:
    """Numbers in float32 into a row of ``out``; gives the sum of their squares."""
    squares = np.float32(0)
    for i in range(np.uint64(count)):
        v = value(x, at + i, shift)
        out[row, i] = v
        squares += v * v
    return squares


@inner
def centre(x: Array, at: Any, count: int, shift: Any, mean: Array, slot: int, h: Any, out: Array, row: int) -> Any:
    """As `load`, without the row's mean; gives the sums of squares with it and without it."""
    squares, middle = np.float32(0), np.float32(0)
    for i in range(np.uint64(count)):
        v = value(x, at + i, shift)
        squares += v * v
        v -= mean[slot, h + i]
        out[row, i] = v
        middle += v * v
    return squares, middle


@inner
def clear(out: Array, row: int) -> None:
    for i in range(out.shape[1]):
        out[row, i] = 0


@inner
def touch(x: Array, at: Any, count: int) -> Any:
    """Bring a row into the cache from its start to its end, which memory gives fastest."""
    seen = np.uint64(0)
    for i in range(np.uint64(0), np.uint64(count), np.uint64(32)):
        seen += x[at + i]
    return seen


@inner
def hash_of(words: Array, at: Any, weights: Array) -> Any:
    """`health.row_hash` of one row."""
    mixed = np.int64(0)
    for i in range(np.uint64(len(weights))):
        word = words[at + i]
        mixed += (word ^ (word >> 31)) * weights[i]
    return mixed


@inner
def dots(x: Array, at: int, slots: int, y: Array, rows: Array, left: Any, count: int, out: Array, t: int) -> None:
    """Add products of ``slots`` rows of x, from row ``at``, with ``rows`` of y, from column ``left``, to ``out[t]``."""
    slots3, rows3 = slots // 3 * 3, len(rows) // 3 * 3
    for j in range(0, rows3, 3):
        u, v, w = rows[j], rows[j + 1], rows[j + 2]
        for r in range(0, slots3, 3):
            au = av = aw = bu = bv = bw = cu = cv = cw = np.float32(0)
            for i in range(np.uint64(count)):
                a, b, c, f, g, h = (
                    x[at + r, i],
                    x[at + r + 1, i],
                    x[at + r + 2, i],
                    y[u, left + i],
                    y[v, left + i],
                    y[w, left + i],
                )
                au += a * f
                av += a * g
                aw += a * h
                bu += b * f
                bv += b * g
                bw += b * h
                cu += c * f
                cv += c * g
                cw += c * h
            out[t, r, j] += au
            out[t, r, j + 1] += av
            out[t, r, j + 2] += aw
            out[t, r + 1, j] += bu
            out[t, r + 1, j + 1] += bv
            out[t, r + 1, j + 2] += bw
            out[t, r + 2, j] += cu
            out[t, r + 2, j + 1] += cv
            out[t, r + 2, j + 2] += cw
        for r in range(slots3, slots):
            au = av = aw = np.float32(0)
            for i in range(np.uint64(count)):
                a = x[at + r, i]
                au += a * y[u, left + i]
                av += a * y[v, left + i]
                aw += a * y[w, left + i]
            out[t, r, j] += au
            out[t, r, j + 1] += av
            out[t, r, j + 2] += aw
    for j in range(rows3, len(rows)):
        u = rows[j]
        for r in range(slots):
            au = np.float32(0)
            for i in range(np.uint64(count)):
                au += x[at + r, i] * y[u, left + i]
            out[t, r, j] += au


@entry
def products(
    a: Array,
    a_step: int,
    a_slot: int,
    b: Array,
    b_step: int,
    b_slot: int,
    lead: int,
    given: int,
    shift: Any,
    hidden: int,
    tile: int,
    wanted: Array,
    anew: bool,
    mean_a: Array,
    mean_b: Array,
    words_a: Array,
    words_b: Array,
    weights: Array,
    square_a: Array,
    square_b: Array,
    middle_a: Array,
    middle_b: Array,
    along_a: Array,
    along_b: Array,
    out: Array,
    hash_a: Array,
    hash_b: Array,
) -> Any:
    """Squared lengths, inner products and hashes of n tokens: of the rows as they are, or without their means.

    Args:
        a: bits of n tokens' rows, ``a_step`` numbers from one token to the next, ``a_slot`` from slot to slot.
        b: those of the other side; they start at row ``lead`` of the window and are ``given``. Others count as zeros.
        shift: by how much the bits are shifted up.
        hidden: H, the width of a row.
        tile: so many features are worked on at once.
        wanted: int64, rows of the window that a row is held against: 0 to 2 edge.
        anew: whether b's rows before the tokens and around the first are to be added up too: not if they were already.
        mean_a: float32 [K, H], or [0, H] where nothing is to be taken off; ``mean_b`` likewise.
        words_a: the same memory as ``a`` in int64, ``words_b`` that of ``b``; with ``weights`` empty nothing is hashed.
        square_a: out, float64 [n, K], squared lengths of the rows as they are; ``square_b`` [n + 2 edge, L], the rows
            around included. All that is float64 is added up, and zero at first.
        middle_a: out, float64, squared lengths without the means; ``middle_b`` likewise.
        along_a: out, float64 [n, K, L], products of a's rows without the means with b's means; ``along_b``
            [n + 2 edge, L, K].
        out: float64 [n, K, len(wanted) * L], products of rows with rows: without the means, where there are any.
        hash_a: out, int64 [n, K]; ``hash_b`` [n, L].
    """
    tokens, slots, others = square_a.shape[0], square_a.shape[1], square_b.shape[1]
    window = len(square_b) - tokens + 1
    edge, centred, hashed = (window - 1) // 2, len(mean_a) > 0, len(weights) > 0
    word = hidden // len(weights) if hashed else 1  # numbers in one
    near = 1 if window == 1 else NEAR
    x, y = np.empty((slots, tile), np.float32), np.empty((window * others, tile), np.float32)
    rows, whole = np.empty(len(wanted) * others, np.int64), np.empty(max(slots, others), np.int64)
    for k in range(len(whole)):
        whole[k] = k
    all_a, all_b = whole[:slots], whole[:others]
    seen, left, top = np.uint64(0), np.uint64(0), np.int64(0)  # typed: a bare 0 would be compiled for by itself
    for start in range(0, tokens, near):
        stop = min(start + near, tokens)
        for t in range(start, stop):
            for k in range(slots):
                at = t * a_step + k * a_slot
                if hashed:
                    hash_a[t, k] = hash_of(words_a, np.uint64(at // word), weights)
                elif window > 1:
                    seen += touch(a, np.uint64(at), hidden)
            for k in range(others):
                at = (t + edge - lead) * b_step + k * b_slot
                if hashed:
                    hash_b[t, k] = hash_of(words_b, np.uint64(at // word), weights)
                elif window > 1:
                    seen += touch(b, np.uint64(at), hidden)
        for h in range(0, hidden, tile):
            column, count = np.uint64(h), min(tile, hidden - h)
            for w in range(start, stop + window - 1):
                fresh = w - start >= window - 1 or (start == 0 and anew)  # not seen with the tokens before
                ring = w % window * others
                for k in range(others):
                    at = (w - lead) * b_step + k * b_slot + h
                    if w < lead or w >= lead + given:
                        clear(y, ring + k)
                    elif centred:
                        square, middle = centre(b, np.uint64(at), count, shift, mean_b, k, column, y, ring + k)
                        if fresh:
                            square_b[w, k] += square
                            middle_b[w, k] += middle
                    else:
                        square = load(b, np.uint64(at), count, shift, y, ring + k)
                        if fresh:
                            square_b[w, k] += square
                if centred and fresh:
                    dots(y, ring, others, mean_a, all_a, column, count, along_b, w)
                t = w - window + 1
                if t < start:
                    continue
                for k in range(slots):
                    at = t * a_step + k * a_slot + h
                    if centred:
                        square, middle = centre(a, np.uint64(at), count, shift, mean_a, k, column, x, k)
                        square_a[t, k] += square
                        middle_a[t, k] += middle
                    else:
                        square_a[t, k] += load(a, np.uint64(at), count, shift, x, k)
                if centred:
                    dots(x, top, slots, mean_b, all_b, column, count, along_a, t)
                r = 0
                for i in range(len(wanted)):
                    for k in range(others):
                        rows[r] = (t + wanted[i]) % window * others + k
                        r += 1
                dots(x, top, slots, y, rows, left, count, out, t)
    return seen  # so that what was only touched is not left out


@entry
def add_up(x: Array, step: int, slot: int, shift: Any, keep: Array, out: Array) -> None:
    """Add the rows of the tokens that ``keep`` names to ``out``, float32 [K, H]; laid out as `products` has them."""
    tokens, width = len(keep), np.uint64(out.shape[1])
    t = 0
    while t < tokens:
        four = t + 4 <= tokens and keep[t] and keep[t + 1] and keep[t + 2] and keep[t + 3]
        for k in range(len(out)):
            at, on = np.uint64(t * step + k * slot), np.uint64(step)
            if four:
                two, three = at + on, at + on + on
                last = three + on
                for i in range(width):
                    low = value(x, at + i, shift) + value(x, two + i, shift)
                    out[k, i] += low + (value(x, three + i, shift) + value(x, last + i, shift))
            elif keep[t]:
                for i in range(width):
                    out[k, i] += value(x, at + i, shift)
        t += 4 if four else 1
