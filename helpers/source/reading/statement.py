"""One statement about the source, with the lines that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from helpers.source.excerpts import Line

Topic = Literal["setter", "taps", "a2a", "fusion", "graphs", "order", "drafter", "overlap"]


@dataclass(frozen=True)
class Statement:
    """What the source says about one topic.

    Attributes:
        holds: whether the matter is so in the launch that was asked about (a branch is taken, fusion is on, ...); None
            where that depends on what is not known, or where the source could not be read: then ``unread`` says what
            stood in the way.
        summary: one sentence.
        evidence: the lines, in the order in which to read them.
        details: what a program needs of it, by topic.
    """

    topic: Topic
    holds: bool | None
    summary: str
    evidence: tuple[Line, ...] = ()
    details: tuple[tuple[str, Any], ...] = ()
    unread: str = ""

    def record(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "topic": self.topic,
            "holds": self.holds,
            "summary": self.summary,
            "evidence": [line.record() for line in self.evidence],
            "details": dict(self.details),
            "unread": self.unread,
        }

    def __str__(self) -> str:
        holds = {True: "yes", False: "no", None: "not known"}[self.holds]
        head = f"{self.topic} (holds: {holds}): {self.summary}"
        return "\n".join([head, *(f"  {e.file}:{e.line}: {e.text.strip()}" for e in self.evidence)])


def unread(topic: Topic, why: str, *evidence: Line) -> Statement:
    """The statement that nothing can be stated."""
    return Statement(topic, None, f"not read: {why}", evidence, unread=why)
