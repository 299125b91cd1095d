"""Accept rates of two configurations over the prompts that both answered: their difference, paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.intervals import paired_difference, ratio_interval
from helpers.acceptance.load_records import Load
from helpers.acceptance.per_prompt import per_prompt
from helpers.errors import UsageError
from helpers.notebook_text import Worded


class Counted(Protocol):
    """Counts of one prompt."""

    @property
    def correct(self) -> int: ...
    @property
    def proposed(self) -> int: ...
    @property
    def verify_steps(self) -> int: ...


def rates_apart(first: Sequence[Counted], second: Sequence[Counted]) -> str | None:
    """Why two accept rates are of different things; None where each verify step proposes as many on both sides."""
    drafts = [sum(c.proposed for c in side) / max(1, sum(c.verify_steps for c in side)) for side in (first, second)]
    if abs(drafts[0] - drafts[1]) <= 1e-9 * max(drafts):
        return None
    return f"{drafts[0]:.4g} and {drafts[1]:.4g} drafts a verify step, and the rate is of the proposed ones"


class Side(BaseModel):
    """One side of a difference: its accept rate over the prompts that both answered. ``verify_steps``: its n."""

    model_config = ConfigDict(frozen=True)

    accept_rate: float
    ci95: tuple[float, float]
    verify_steps: int

    def __str__(self) -> str:
        low, high = self.ci95
        return f"{self.accept_rate:.3f} [{low:.3f}, {high:.3f}] (n = {self.verify_steps} verify steps)"


class PairedDifference(Worded, BaseModel):
    """Accept rate of one profile minus another's over the same prompts, with a paired 95% interval.

    Attributes:
        requests: how many pairs: prompts, each with all answers to it.
        sides: both rates, of the first and the second; None where only the difference is known.
    """

    model_config = ConfigDict(frozen=True)

    first: str
    second: str
    difference: float
    ci95: tuple[float, float]
    requests: int
    sides: tuple[Side, Side] | None = None

    def __str__(self) -> str:
        low, high = self.ci95
        first, second = (f" {side}" for side in self.sides) if self.sides else ("", "")
        return (
            f"accept rate of {self.first}{first} minus that of {self.second}{second}: {100 * self.difference:+.1f} "
            f"points [{100 * low:+.1f}, {100 * high:+.1f}], paired over {self.requests} prompts"
        )


def compare(first_name: str, first: Load, second_name: str, second: Load) -> PairedDifference:
    """Paired comparison of two loads' accept rates; both answered the same prompts in the same order.

    A pair is a prompt: answers to it with several seeds are added up, on both sides.

    Raises:
        UsageError: ``WB-RATES-APART``, as `paired`; ``WB-COUNTERS-NONE`` where a side has no counters.
    """
    if [a.id for a in first.answers] != [a.id for a in second.answers]:
        raise ValueError(f"{first_name} and {second_name} answered different prompts")
    one, other = per_prompt([first]), per_prompt([second])
    common = [id for id in one if one[id].proposed and other[id].proposed]
    if not common:
        raise UsageError(
            "WB-COUNTERS-NONE",
            f"{first_name} and {second_name} have counters to no prompt in common",
            expected="two servers with speculation, asked over an endpoint that tells counters (generate)",
            next="compare their speeds: workbook bench BOX RUN RUN",
        )
    return paired(first_name, [one[id] for id in common], second_name, [other[id] for id in common])


def paired(first_name: str, first: Sequence[Counted], second_name: str, second: Sequence[Counted]) -> PairedDifference:
    """Accept rate of the first minus the second's; both hold the counts of the same prompts in the same order.

    Raises:
        UsageError: ``WB-RATES-APART`` where they propose different numbers of drafts a verify step.
    """
    if (met := rates_apart(first, second)) is not None:
        raise UsageError(
            "WB-RATES-APART",
            f"the accept rates of {first_name} and {second_name} have no difference: {met}",
            expected="as many drafts a verify step on both sides",
            next="compare accept lengths, which count tokens a verify step whatever is drafted",
        )
    one, other = (([float(c.correct) for c in side], [float(c.proposed) for c in side]) for side in (first, second))
    difference, interval = paired_difference(one, other)
    sides = [
        Side(
            accept_rate=sum(correct) / sum(proposed),
            ci95=ratio_interval(correct, proposed),
            verify_steps=sum(int(c.verify_steps) for c in counts),
        )
        for (correct, proposed), counts in ((one, first), (other, second))
    ]
    return PairedDifference(
        first=first_name,
        second=second_name,
        difference=difference,
        ci95=interval,
        requests=len(first),
        sides=(sides[0], sides[1]),
    )
