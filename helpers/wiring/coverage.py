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
    ``requests`` and ``samples`` have such rows, of ``of_requests`` and ``of_samples``. ``prompt_rows`` are of tokens
    that were sent, and come from prefill passes; ``answer_rows`` of tokens that the server produced, from decode and
    verify passes, in which kernels for few tokens run.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    distinct: int
    requests: int
    of_requests: int
    samples: int
    of_samples: int
    prompt_rows: int
    answer_rows: int

    def __str__(self) -> str:
        return (
            f"{self.distinct:,} distinct rows, of {self.requests:,} of {self.of_requests:,} requests and "
            f"{self.samples:,} of {self.of_samples:,} samples; {self.prompt_rows:,} rows of prompts, "
            f"{self.answer_rows:,} of answers"
        )


def cover(aligned: Aligned, dump: Dump) -> Coverage:
    """The coverage of an alignment."""
    pairings, view = aligned.pairings, aligned.view
    prompts = {number: request.prompt_tokens for number, request in enumerate(view.capture.info.requests)}
    # Of a request that capture.json does not list nobody knows where its prompt ends.
    known = [(view.positions[p.served], prompts[p.request]) for p in pairings if p.request in prompts]
    sent = sum(int((positions < prompt).sum()) for positions, prompt in known)
    return Coverage(
        rows=sum(map(len, pairings)),
        distinct=distinct_rows(pairings),
        requests=len({pairing.request for pairing in pairings}),
        of_requests=len({*prompts, *view.request.tolist()}),
        samples=len(pairings),
        of_samples=len(dump),
        prompt_rows=sent,
        answer_rows=sum(len(positions) for positions, _ in known) - sent,
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


def prompts_alone(findings: list[Finding], coverage: Coverage) -> list[Undecided]:
    """What a match says nothing of, where all that was compared are prompts."""
    if coverage.answer_rows or all(finding.code != "features-match" for finding in findings):
        return []
    why = (
        f"all {coverage.prompt_rows} rows that were compared are of prompts: what the drafter is fed in decode and "
        "verify passes was not looked at, and other kernels may run in them (an all-reduce that is fused for few "
        "tokens); send only the starts of training's texts, and let the server go on: "
        "workbook capture BOX RUN --replay DUMP --starts"
    )
    return [Undecided(code="features-match", why=why)]


def with_coverage(match: Finding, coverage: Coverage) -> Finding:
    """``features-match`` with what it rests on."""
    return match.model_copy(update={"evidence": {**match.evidence, "aligned": coverage.model_dump()}})
