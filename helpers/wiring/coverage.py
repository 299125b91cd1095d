"""What a diagnosis rests on: how many rows were compared, how many of them are no copies, and of which texts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.tensors.align import distinct_rows
from helpers.tensors.dumps import Dump
from helpers.wiring.features import FEW, Aligned
from helpers.wiring.findings import Finding, Undecided, error


class Coverage(BaseModel):
    """Rows that were paired, token 0 and those without a feed left out.

    ``distinct`` are those that are neither copies of one another nor part of a start that other texts share;
    ``requests`` and ``samples`` have such rows, of ``of_requests`` and ``of_samples``.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    distinct: int
    requests: int
    of_requests: int
    samples: int
    of_samples: int

    def __str__(self) -> str:
        return (
            f"{self.distinct:,} distinct rows, of {self.requests:,} of {self.of_requests:,} requests and "
            f"{self.samples:,} of {self.of_samples:,} samples"
        )


def cover(aligned: Aligned, dump: Dump) -> Coverage:
    """The coverage of an alignment."""
    pairings = aligned.pairings
    return Coverage(
        rows=sum(map(len, pairings)),
        distinct=distinct_rows(pairings),
        requests=len({pairing.request for pairing in pairings}),
        of_requests=len(aligned.view.capture.info.requests),
        samples=len(pairings),
        of_samples=len(dump),
    )


def tokens_differ(aligned: Aligned, coverage: Coverage) -> list[Finding]:
    """No request has a sample's tokens, but for a start that several texts share."""
    if aligned.matched_tokens:
        return []
    evidence: dict[str, Any] = {"samples": coverage.of_samples, "requests": coverage.of_requests}
    if not aligned.shared_start:
        summary = "no served request starts with a training sample's tokens: nothing can be compared"
        return [error("tokens-differ", None, summary, **evidence)]
    summary = (
        f"no served request goes on as a training sample does: what they share is a start of {aligned.shared_start} "
        "tokens, which other texts begin with as well, such as a system prompt; nothing else can be compared"
    )
    return [error("tokens-differ", None, summary, **evidence, shared_start=aligned.shared_start)]


def too_few(aligned: Aligned, coverage: Coverage) -> list[Undecided]:
    """Why nothing is said of the slots, where rows were paired and are too few."""
    if not aligned.matched_tokens or coverage.distinct >= FEW:
        return []
    why = (
        f"{coverage.distinct} distinct rows of served requests are of training's texts, beside what several texts "
        f"share; with fewer than {FEW} no slot can be told from another"
    )
    return [Undecided(code="features-match", why=why)]


def with_coverage(match: Finding, coverage: Coverage) -> Finding:
    """``features-match`` with what it rests on."""
    return match.model_copy(update={"evidence": {**match.evidence, "aligned": coverage.model_dump()}})
