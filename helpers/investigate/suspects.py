"""What can make a drafter see other features than training did: hypotheses, with the findings that would show each.

Notebooks and the command state them alike, so that several may write to one ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from helpers.ledger import Ledger
    from helpers.ledger.records import Hypothesis, Outcome, Verdict
    from helpers.wiring.diagnosis import Diagnosis


@dataclass(frozen=True)
class Suspect:
    """One suspect.

    Attributes:
        key: its short name in a ledger (`ledger.get("ids")`).
        codes: findings of severity error that show it; none of them refutes it where what it is about was compared.
        about: ``slots``, of which each has to be known on both sides, or ``ranks``, which are compared without a dump.
    """

    key: str
    claim: str
    prediction: str
    codes: tuple[str, ...]
    about: Literal["slots", "ranks"] = "slots"

    @property
    def threshold(self) -> str:
        """When it counts as shown."""
        return f"a finding of severity error: {', '.join(self.codes)}"


SUSPECTS = (
    Suspect(
        "ids",
        "the layer ids feed other layers than training captured",
        "a served slot is another boundary of the ladder than its trained slot",
        ("slot-embedding", "slot-offset", "slot-wrong", "slot-duplicate"),
    ),
    Suspect(
        "order",
        "the slots are concatenated in another order than training had",
        "the served slots are the trained ones, permuted",
        ("slot-permuted",),
    ),
    Suspect(
        "fc-order",
        "the drafter's fc wants its blocks in another order than training's dump has them",
        "with the right feed, another order of fc's blocks gives a lower step-1 cross-entropy",
        ("fc-order",),
    ),
    Suspect(
        "tp-shard",
        "a capture under tensor parallelism is local to a rank: a slice of the width",
        "each rank holds a slice, or the feed is no multiple of the hidden size",
        ("rank-feature-shard", "slot-count"),
        about="ranks",
    ),
    Suspect(
        "a2a-gather",
        "tokens are spread over ranks (an A2A backend) or not yet summed when they are tapped",
        "ranks hold other tokens of one request, or other values of the same tokens",
        ("rank-token-shard", "rank-partial-sum"),
        about="ranks",
    ),
    Suspect(
        "token-shift",
        "the features belong to a neighbouring token",
        "served row t is trained row t+s",
        ("token-shift",),
    ),
    Suspect(
        "form",
        "the features have another form: without the residual, normed, scaled, rotated, or stale",
        "a slot is a boundary only after such a change",
        (
            "residual-omitted",
            "final-norm-applied",
            "scaled",
            "rotated",
            "slot-unmatched",
            "stale-rows",
            "non-finite",
            "rows-missing",
        ),
    ),
)


def state_suspects(ledger: Ledger, suspects: Sequence[Suspect] = SUSPECTS) -> dict[str, Hypothesis]:
    """All of them as hypotheses, before anything was looked at; by key."""
    return {
        s.key: ledger.hypothesis(s.claim, key=s.key, prediction=s.prediction, threshold=s.threshold) for s in suspects
    }


def weigh(
    ledger: Ledger,
    diagnosis: Diagnosis,
    *,
    of: Any = (),
    suspects: Sequence[Suspect] = SUSPECTS,
) -> dict[str, Verdict]:
    """A diagnosis as evidence on every suspect, and what follows for each; by key.

    Args:
        of: what the diagnosis was made of, and its own evidence.
    """
    verdicts = {}
    for suspect, h in zip(suspects, state_suspects(ledger, suspects).values(), strict=True):
        found = [f for f in diagnosis.findings if f.severity == "error" and f.code in suspect.codes]
        unsure = None if found else _undecided(suspect, diagnosis)
        reason = "; ".join(dict.fromkeys(f.summary for f in found)) or unsure or _absent(suspect, diagnosis)
        values = {
            "summary": reason,
            "codes": [f.code for f in found],
            "slots": [f.slot for f in found],
            "looked_for": list(suspect.codes),
            "n": diagnosis.aligned_tokens,
        }
        supports = True if found else None if unsure else False
        e = ledger.evidence(
            values, on=h, supports=supports, title=f"findings on {suspect.key}", of=of, unit="aligned tokens"
        )
        outcome: Outcome = "confirmed" if found else "inconclusive" if unsure else "refuted"
        verdicts[suspect.key] = ledger.verdict(h, outcome, because=[e], reason=reason)
    return verdicts


def _undecided(suspect: Suspect, diagnosis: Diagnosis) -> str | None:
    """Why a diagnosis that shows nothing of a suspect does not clear it either; None where it does."""
    whys = [one.why for one in diagnosis.undecided if one.code in suspect.codes]
    whys += [f.summary for f in diagnosis.findings if f.severity == "warning" and f.code in suspect.codes]
    if whys:
        return whys[0]
    return _not_compared(diagnosis) if suspect.about == "slots" else None


def _not_compared(diagnosis: Diagnosis) -> str | None:
    """Which slots could not be held against what training had, in words; None where each of them was."""
    if not diagnosis.slots:
        return "no slot was compared with what training captured"
    open_slots = [slot for slot in diagnosis.slots if not slot.compared]
    if not open_slots:
        return None
    sides = [
        (said, [slot.slot for slot in open_slots if getattr(slot, name).boundary is None])
        for said, name in (("what training had in {} is not known", "trained"), ("what {} got is not known", "served"))
    ]
    said = [text.format(_slots(unknown)) for text, unknown in sides if unknown]
    return f"not every slot could be compared with what it was trained on: {', and '.join(said)}"


def _slots(numbers: Sequence[int]) -> str:
    return f"slot{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _absent(suspect: Suspect, diagnosis: Diagnosis) -> str:
    text = f"none of {', '.join(suspect.codes)} was found"
    if suspect.about == "slots":
        return f"{text}, and every slot was compared with what it was trained on"
    ranks = diagnosis.ranks.ranks
    return f"{text} on {ranks} ranks" if ranks > 1 else f"{text}; this run has one rank, so nothing of it is spread"
