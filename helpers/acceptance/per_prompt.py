"""Sums per prompt: the unit that intervals draw.

Answers to one prompt are alike, also across seeds, passes and restarts, so they are added up first: asking the same
prompt ten times must not make an interval ten times as sure of what other prompts would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from helpers.acceptance.load_records import Answer, Load


@dataclass
class Sums:
    """Added up over the answers to one prompt. ``reached[k]``: verify steps that accepted at least k drafts."""

    tokens: int = 0
    seconds: float = 0.0
    decode_s: float = 0.0
    decode_steps: int = 0
    correct: int = 0
    proposed: int = 0
    verify_steps: int = 0
    reached: tuple[int, ...] = ()

    def add(self, answer: Answer) -> None:
        self.tokens += answer.tokens
        self.seconds += answer.seconds
        if answer.arrivals:
            self.decode_s += answer.decode_s
            self.decode_steps += answer.decode_steps
        counters = answer.counters
        if counters is None:
            return
        self.correct += counters.correct
        self.proposed += counters.proposed
        self.verify_steps += counters.verify_steps
        width = max(len(self.reached), len(counters.histogram))
        before = self.reached + (0,) * (width - len(self.reached))
        self.reached = tuple(had + sum(counters.histogram[k:]) for k, had in enumerate(before))

    def at_least(self, k: int) -> int:
        """Verify steps in which at least k drafts were accepted."""
        return self.reached[k] if k < len(self.reached) else 0


def per_prompt(loads: Iterable[Load]) -> dict[str, Sums]:
    """The sums of each prompt over all answers of these loads, in the order in which prompts were first answered."""
    found: dict[str, Sums] = {}
    for load in loads:
        for answer in load.answers:
            found.setdefault(answer.id, Sums()).add(answer)
    return found
