"""A request's speculation counters, read from the server's own answer, and what they say together.

One meaning, whatever the source calls it:

===============  ==================================================================================
accept_length    L = 1 + correct / verify steps: mean tokens per verify step, the bonus token included
accept_rate      correct / proposed drafts
survival[i]      S(i + 1): share of verify steps in which at least i + 1 drafts were accepted
===============  ==================================================================================

Footgun: SGLang's own ``spec_accept_length`` is completion tokens / verify steps. The first token comes from the prefill
and the last step may be cut, so it differs from L in short answers; `meanings` checks it, and it is never used as L.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.errors import UsageError, WrongResult

#: Names of one figure: SGLang 0.5.9 (and 0.5.10) first, then 0.5.23.
CORRECT = ("spec_accept_token_num", "spec_num_correct_drafts")
PROPOSED = ("spec_draft_token_num", "spec_num_proposed_drafts")
HISTOGRAM = ("spec_accept_histogram", "spec_correct_drafts_histogram")


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

    Source: SGLang 0.5.9 and 0.5.23, managers/tokenizer_manager.py, ``_calculate_spec_decoding_metrics``.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when the server's figures contradict each other.
        UsageError: ``WB-COUNTERS-UNREADABLE`` when there is speculation but no histogram of it.

    >>> from_meta_info({"spec_verify_ct": 3, "spec_accept_token_num": 4, "spec_draft_token_num": 9,
    ...                 "spec_accept_histogram": [1, 0, 2]})
    RequestCounters(histogram=(1, 0, 2), proposed=9)
    >>> from_meta_info({"spec_verify_ct": 3, "spec_num_correct_drafts": 4, "spec_num_proposed_drafts": 9,
    ...                 "spec_correct_drafts_histogram": [1, 0, 2]})
    RequestCounters(histogram=(1, 0, 2), proposed=9)
    """
    if not meta.get("spec_verify_ct"):
        return None
    verify = int(meta["spec_verify_ct"])
    histogram, proposed = figure(meta, HISTOGRAM), figure(meta, PROPOSED)
    if not histogram or proposed is None:
        raise UsageError(
            "WB-COUNTERS-UNREADABLE",
            f"meta_info has spec_verify_ct={verify} but its spec fields are {sorted(k for k in meta if 'spec' in k)}",
            expected="spec_accept_histogram and spec_draft_token_num (SGLang 0.5.9), or "
            "spec_correct_drafts_histogram and spec_num_proposed_drafts (0.5.23)",
            next="check the engine's version: workbook facts BOX",
        )
    counters = RequestCounters(tuple(int(n) for n in histogram), int(proposed))
    hold("sum(histogram) = verify steps", counters.verify_steps, verify)
    correct = figure(meta, CORRECT)
    if correct is not None:
        hold("sum(i * histogram[i]) = correct drafts", counters.correct, int(correct))
    hold("proposed drafts are a whole number per verify step", counters.proposed % verify, 0)
    if len(counters.histogram) - 1 > counters.proposed // verify:
        hold("no step accepts more drafts than proposed", len(counters.histogram) - 1, counters.proposed // verify)
    return counters


@dataclass(frozen=True)
class Meanings:
    """What the two ratios in ``meta_info`` are, by its own counts; None where it lacks the ratio or the counts.

    Attributes:
        rate: ``correct / proposed drafts`` (SGLang 0.5.9 and 0.5.23), or ``L/N`` as those logs print it.
        length: ``completion tokens / verify steps`` (SGLang 0.5.9 and 0.5.23), or ``1 + correct / verify steps``.
    """

    rate: str | None
    length: str | None


def meanings(meta: Mapping[str, Any]) -> Meanings:
    """Decides what ``spec_accept_rate`` and ``spec_accept_length`` mean from the counts beside them.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when a ratio is none of what it could be.

    >>> meanings({"spec_verify_ct": 4, "spec_accept_token_num": 6, "spec_draft_token_num": 12, "spec_accept_rate": 0.5})
    Meanings(rate='correct / proposed drafts', length=None)
    """
    verify, completion = meta.get("spec_verify_ct"), meta.get("completion_tokens")
    correct, proposed = figure(meta, CORRECT), figure(meta, PROPOSED)
    rates, lengths = {}, {}
    if verify and proposed and correct is not None:
        rates = {"correct / proposed drafts": correct / proposed, "L/N": (correct + verify) / (proposed + verify)}
    if verify and completion:  # without completion tokens it cannot be held against them, and nothing is decided
        lengths["completion tokens / verify steps"] = completion / verify
        if correct is not None:
            lengths["1 + correct / verify steps"] = 1 + correct / verify
    return Meanings(
        _meaning("spec_accept_rate", meta.get("spec_accept_rate"), rates),
        _meaning("spec_accept_length", meta.get("spec_accept_length"), lengths),
    )


def _meaning(name: str, said: float | None, possible: Mapping[str, float]) -> str | None:
    if said is None or not possible:
        return None
    for meaning, value in possible.items():
        if agree(float(said), value):
            return meaning
    first = next(iter(possible))
    raise contradiction(f"{name} = {first}", f"{said:g}", f"{possible[first]:g}")


def figure(meta: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """One figure under whichever of its names it has; None when it has none.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when two names hold different values.
    """
    met = [(name, meta[name]) for name in names if meta.get(name) is not None]
    for name, value in met[1:]:
        if value != met[0][1]:
            raise contradiction(f"{name} = {met[0][0]}", str(value), str(met[0][1]))
    return met[0][1] if met else None


def hold(identity: str, met: float, expected: float) -> None:
    """Refuses figures for which an identity does not hold."""
    if not agree(met, expected):
        raise contradiction(identity, f"{met:g}", f"{expected:g}")


def agree(said: float, value: float) -> bool:
    """Whether a figure is a value, to one part in a million, or rounded to the few decimals that it has.

    >>> agree(0.467, 115 / 246), agree(0.47, 115 / 246), agree(0.46, 115 / 246)
    (True, True, False)
    """
    decimals = len(repr(float(said)).partition(".")[2])
    rounding = 0.5 * 10.0**-decimals if decimals <= 4 and not float(said).is_integer() else 0.0
    return abs(said - value) <= max(rounding, 1e-6 * max(1.0, abs(value))) + 1e-12


def contradiction(identity: str, met: str, expected: str) -> WrongResult:
    return WrongResult(
        "WB-COUNTERS-CONTRADICT",
        f"the server's figures contradict each other: {identity} gives {met} against {expected}",
        expected=f"identity: {identity}",
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
