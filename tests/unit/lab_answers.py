"""Answers of the arms of a check, made by hand: no server is asked."""

from __future__ import annotations

import random

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load

REQUESTS = 32


def load(
    rate: float | None, *, looped: int = 0, other: int = 0, seed: int = 0, requests: int = REQUESTS, new: int = 64
) -> Load:
    """Answers of `new` tokens: `looped` of them loop, `other` have another text, drafts are accepted at `rate`."""
    draw = random.Random(seed)
    answers = []
    for number in range(requests):
        ids = ([number, *range(100, 163)] if number >= looped else [number, *([7, 8, 9] * 21)])[:new]
        ids[-1] += number < other
        histogram = [0, 0, 0, 0]
        for _ in range(20):
            taken = 0
            while rate is not None and taken < 3 and draw.random() < rate:
                taken += 1
            histogram[taken] += 1
        counters = None if rate is None else RequestCounters(histogram=tuple(histogram), proposed=60)
        answers.append(Answer(f"p{number}", tuple(ids), counters, 1.0))
    return Load(tuple(answers), new)


def uneven(*rates: tuple[int, float]) -> Load:
    """As `load`, but so many prompts at each rate, in order; 20 verify steps each."""
    answers = []
    for count, rate in rates:
        right = round(60 * rate)
        for _ in range(count):
            steps = RequestCounters(histogram=(20 - right // 3 - (right % 3 > 0), 0, 0, right // 3), proposed=60)
            answers.append(Answer(f"p{len(answers)}", (len(answers), *range(100, 163)), steps, 1.0))
    return Load(tuple(answers), 64)


GOOD = {
    "baseline": load(None),
    "right": load(0.8),
    "miswired": load(0.3, seed=1),
    "off by one": load(0.7, seed=2),
    "permuted": load(0.15, seed=3),
    "mirror, by its config": load(0.3, seed=4),
    "mirror, as trained": load(0.6, seed=5),
}
