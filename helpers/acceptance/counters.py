"""A request's speculation counters, read from the server's own answer, and what they say together.

One meaning, whatever the source calls it:

===============  ==================================================================================
accept_length    L = 1 + correct / verify steps: mean tokens per verify step, the bonus token included
accept_rate      correct / proposed drafts
survival[i]      S(i + 1): share of verify steps in which at least i + 1 drafts were accepted
===============  ==================================================================================

Footgun: SGLang's own ``spec_accept_length`` is completion tokens / verify steps. The first token comes from the prefill
and the last step may be cut, so it differs from L in short answers; it is never read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.errors import UsageError, WrongResult


@dataclass(frozen=True)
class RequestCounters:
    """What one request's verify steps did.

    Attributes:
        histogram: ``histogram[i]`` verify steps accepted exactly i drafts; no trailing zeros are needed.
        proposed: drafts proposed over all verify steps.
    """

    histogram: tuple[int, ...]
    proposed: int

    @property
    def verify_steps(self) -> int:
        return sum(self.histogram)

    @property
    def correct(self) -> int:
        return sum(i * count for i, count in enumerate(self.histogram))


@dataclass(frozen=True)
class Acceptance:
    """Pooled counters of several requests (counts are added; rates are never averaged)."""

    accept_length: float
    accept_rate: float
    survival: tuple[float, ...]
    histogram: tuple[int, ...]
    verify_steps: int
    proposed: int
    correct: int


def from_meta_info(meta: Mapping[str, Any]) -> RequestCounters | None:
    """Reads the counters in a /generate answer's ``meta_info``; None when the request was served without speculation.

    Source: SGLang 0.5.9, managers/tokenizer_manager.py, ``_calculate_spec_decoding_metrics``.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when the server's figures contradict each other.
        UsageError: ``WB-COUNTERS-UNREADABLE`` when there is speculation but no histogram of it.

    >>> from_meta_info({"spec_verify_ct": 3, "spec_accept_token_num": 4, "spec_draft_token_num": 9,
    ...                 "spec_accept_histogram": [1, 0, 2]})
    RequestCounters(histogram=(1, 0, 2), proposed=9)
    """
    if not meta.get("spec_verify_ct"):
        return None
    verify = int(meta["spec_verify_ct"])
    histogram = meta.get("spec_accept_histogram")
    if not histogram or "spec_draft_token_num" not in meta:
        raise UsageError(
            "WB-COUNTERS-UNREADABLE",
            f"meta_info has spec_verify_ct={verify} but its spec fields are {sorted(k for k in meta if 'spec' in k)}",
            expected="spec_accept_histogram and spec_draft_token_num, as SGLang 0.5.9 sends them",
            next="check the engine's version: workbook facts BOX",
        )
    counters = RequestCounters(tuple(int(n) for n in histogram), int(meta["spec_draft_token_num"]))
    _hold("sum(histogram) = verify steps", counters.verify_steps, verify)
    if "spec_accept_token_num" in meta:
        _hold("sum(i * histogram[i]) = correct drafts", counters.correct, int(meta["spec_accept_token_num"]))
    _hold("proposed drafts are a whole number per verify step", counters.proposed % verify, 0)
    if len(counters.histogram) - 1 > counters.proposed // verify:
        _hold("no step accepts more drafts than proposed", len(counters.histogram) - 1, counters.proposed // verify)
    return counters


def _hold(identity: str, met: int, expected: int) -> None:
    if met != expected:
        raise WrongResult(
            "WB-COUNTERS-CONTRADICT",
            f"the server's figures contradict each other: {identity} gives {met} against {expected}",
            expected=identity,
            next="keep the answer as evidence; do not use its rates",
        )


def pool(requests: Iterable[RequestCounters], *, num_steps: int) -> Acceptance:
    """Adds the counters of several requests up.

    Args:
        requests: at least one, with at least one verify step between them.
        num_steps: draft steps per verify step; the length of ``survival``.

    >>> pool([RequestCounters((1, 1, 0, 2), 12)], num_steps=3).accept_length
    2.75
    """
    rows = list(requests)
    width = num_steps + 1
    histogram = tuple(sum(r.histogram[i] if i < len(r.histogram) else 0 for r in rows) for i in range(width))
    steps = sum(r.verify_steps for r in rows)
    if steps == 0 or sum(histogram) != steps:
        raise WrongResult(
            "WB-COUNTERS-CONTRADICT",
            f"{steps} verify steps, of which {sum(histogram)} accepted at most num_steps={num_steps} drafts",
            expected="at least one verify step, none beyond num_steps",
            next="check that num_steps is the server's: workbook runs BOX",
        )
    correct = sum(i * n for i, n in enumerate(histogram))
    proposed = sum(r.proposed for r in rows)
    return Acceptance(
        accept_length=1 + correct / steps,
        accept_rate=correct / proposed,
        survival=tuple(sum(histogram[k:]) / steps for k in range(1, width)),
        histogram=histogram,
        verify_steps=steps,
        proposed=proposed,
        correct=correct,
    )
