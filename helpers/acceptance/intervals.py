"""95% intervals: of rates of pooled counts by bootstrap over requests, of speeds by Student over starts of a server.

Verify steps of one request are alike (same text, same habits), so the request is the unit that is drawn, not the step.
Of starts there are too few to draw from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

DRAWS = 4000

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

#: From so many requests on an interval may decide; below, it is far too narrow. It stays a little so for long: as
#: simulated (docs/LOG.md), the 95% are .85 to .89 over 8 requests, .91 over 16 and .93 over 32.
ENOUGH = 8

#: Student's t, 97.5%, by degrees of freedom, from 1; beyond the last one its value is used, which is a bit too wide.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


def few(requests: int, unit: str = "request") -> str | None:
    """What has to be said beside an interval over so few requests (or other units); None where nothing has.

    >>> few(1)
    'over 1 request: nothing is known of others, and an interval over it says nothing'
    >>> few(8)
    """
    if requests >= ENOUGH:
        return None
    if requests == 1:
        return f"over 1 {unit}: nothing is known of others, and an interval over it says nothing"
    return f"over {requests} {unit}s: an interval drawn from so few is too narrow; decide nothing on it"


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """Interval of sum(numerators) / sum(denominators), requests drawn with replacement.

    Args:
        numerators: per request, for example correct drafts.
        denominators: per request, for example proposed drafts; not all zero. A request with nothing in either (an
            answer of a single token has no verify step) is left out: of draws of none but such there is no ratio.

    Of one request a share may be anything from 0 to 1; a ratio that is no share has its own value twice (see `few`).

    >>> ratio_interval([3], [10])
    (0.0, 1.0)
    >>> low, high = ratio_interval([5, 6, 4, 7], [10, 10, 10, 10])
    >>> low <= 0.55 <= high
    True
    """
    top, bottom = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    kept = (top != 0) | (bottom != 0)
    top, bottom = top[kept], bottom[kept]
    if len(top) == 1 and _shares(top, bottom):
        return 0.0, 1.0
    picks = _picks(len(top), seed, draws)
    ratios = top[picks].sum(1) / bottom[picks].sum(1)
    return _bounds(ratios)


def paired_difference(
    first: tuple[Sequence[float], Sequence[float]],
    second: tuple[Sequence[float], Sequence[float]],
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[float, tuple[float, float]]:
    """Difference of two pooled ratios over the same requests, and its interval.

    The same requests are drawn for both sides, so what one prompt does to both cancels out. A request without a
    denominator on either side is left out, as in `ratio_interval`.

    Args:
        first: (numerators, denominators) per request of the first configuration.
        second: the same of the second, the requests in the same order.
    """
    a, b = (np.asarray(x, dtype=float) for x in first)
    c, d = (np.asarray(x, dtype=float) for x in second)
    if len(a) != len(c):
        raise ValueError(f"a paired comparison needs the same requests on both sides, got {len(a)} and {len(c)}")
    kept = (b != 0) | (d != 0)
    a, b, c, d = a[kept], b[kept], c[kept], d[kept]
    if len(a) == 1 and _shares(a, b) and _shares(c, d):
        return float(a[0] / b[0] - c[0] / d[0]), (-1.0, 1.0)
    picks = _picks(len(a), seed, draws)
    differences = a[picks].sum(1) / b[picks].sum(1) - c[picks].sum(1) / d[picks].sum(1)
    return float(a.sum() / b.sum() - c.sum() / d.sum()), _bounds(differences)


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of positive values and Student's 95% interval on their logarithms; at least two values.

    >>> [round(x, 3) for x in t_interval([10.0, 10.0, 10.0])]
    [10.0, 10.0, 10.0]
    """
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    half = T975[min(len(logs) - 1, len(T975)) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def _shares(top: Floats, bottom: Floats) -> bool:
    """Whether each is a part of its whole, so that the ratio is a rate."""
    return bool(((top >= 0) & (top <= bottom)).all())


def _picks(requests: int, seed: int, draws: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(0, requests, size=(draws, requests))


def _bounds(values: Floats) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
