"""What a measurement makes of a hypothesis about acceptance: confirmed, refuted, or not decided, and why.

The rules of the notebooks' thresholds, in one place. Nothing is refuted for want of data: too few prompts, an interval
across the threshold, or texts that rounding alone can change leave a hypothesis inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

from helpers.acceptance.intervals import ENOUGH
from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.ledger.records import Outcome

FEW = "{n} is too few {unit} for a verdict, which takes at least {least}"

NO_PROMISE = "{tree}, and what training promised is a chain's; compare accept lengths"


@dataclass(frozen=True)
class Judged:
    """A verdict, and what decided it.

    Attributes:
        reason: of a verdict that is not ``confirmed``; empty of one that is.
    """

    outcome: Outcome
    reason: str = ""

    @property
    def supports(self) -> bool | None:
        """How the evidence bears on the hypothesis: None of an inconclusive one."""
        return {"confirmed": True, "refuted": False}.get(self.outcome)

    def because(self, figures: str) -> str:
        """The reason of the verdict: the figures first, then what kept them from confirming the hypothesis."""
        return f"{figures}; {self.reason}" if self.reason else figures


def judge_gain(ci95: tuple[float, float] | None, requests: int, *, unit: str = "requests") -> Judged:
    """Whether a paired difference is above 0.

    Args:
        ci95: of the difference; None where there is none. requests: on how many it is paired, and of which ``unit``.

    >>> judge_gain((0.03, 0.25), 16).outcome, judge_gain((0.03, 0.25), 2).reason
    ('confirmed', '2 is too few requests for a verdict, which takes at least 8')
    """
    if requests < ENOUGH:
        return Judged("inconclusive", FEW.format(n=requests, unit=unit, least=ENOUGH))
    if ci95 is None:
        return Judged("inconclusive", "the difference has no interval")
    if ci95[1] < 0:
        return Judged("refuted", "the difference is below 0")
    return Judged("confirmed") if ci95[0] > 0 else Judged("inconclusive", "the interval of the difference holds 0")


def judge_shortfall(measured: Measurement, promised: float) -> Judged:
    """Whether an accept rate is below the promised one: its whole interval is.

    Args:
        promised: correct / proposed drafts, as training's evaluation had it.
    """
    if measured.units < ENOUGH:
        return Judged("inconclusive", FEW.format(n=measured.units, unit="prompts", least=ENOUGH))
    if measured.ci95 is None:
        return Judged("inconclusive", "the accept rate has no interval")
    if measured.tree is not None:
        return Judged("inconclusive", NO_PROMISE.format(tree=measured.tree))
    low, high = measured.ci95
    if high < promised:
        return Judged("confirmed")
    if low >= promised:
        return Judged("refuted", f"its interval is not below {promised:.0%}")
    return Judged("inconclusive", f"its interval holds {promised:.0%}")


def judge_fix(gain: PairedDifference, mended: Measurement, *, promised: float, equal_text: bool | None) -> Judged:
    """Whether a mended server's acceptance is back, by three conditions: more than before, as promised, and true text.

    Args:
        gain: mended minus production. mended: the mended server.
        promised: its interval has to reach this accept rate.
        equal_text: greedy text as without speculation; None where nothing was compared. Texts that differ speak
            against the fix in float32, a request at a time, only: else rounding alone can do it.
    """
    more = judge_gain(gain.ci95, gain.requests, unit="prompts")
    if gain.requests < ENOUGH:
        return more
    parts = [more, _reaches(mended, promised), _same_text(equal_text, mended)]
    for outcome in ("refuted", "inconclusive"):
        reasons = [part.reason for part in parts if part.outcome == outcome]
        if reasons:
            return Judged(outcome, "; ".join(reasons))
    return Judged("confirmed")


def _reaches(mended: Measurement, promised: float) -> Judged:
    if mended.ci95 is None:
        return Judged("inconclusive", f"the accept rate of {mended.name} has no interval")
    if mended.tree is not None:
        return Judged("inconclusive", NO_PROMISE.format(tree=mended.tree))
    if mended.ci95[1] < promised:
        return Judged("refuted", f"the interval of {mended.name} does not reach {promised:.0%}")
    return Judged("confirmed")


def _same_text(equal: bool | None, mended: Measurement) -> Judged:
    if equal:
        return Judged("confirmed")
    if equal is None:
        return Judged("inconclusive", "no greedy text was compared")
    text = f"greedy text differs (dtype {mended.dtype})"
    if mended.dtype != "float32":
        return Judged("inconclusive", f"{text}: outside float32 rounding alone can do that")
    if mended.concurrency > 1:
        return Judged("inconclusive", f"{text}: requests shared batches, whose rounding alone can do that")
    return Judged("refuted", text)
