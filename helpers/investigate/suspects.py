"""What can make a drafter see other features than training did: hypotheses, with the findings that would show each.

Notebooks and the command state them alike, so that several may write to one ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.ledger import Ledger
    from helpers.ledger.records import Evidence, Hypothesis, Verdict
    from helpers.wiring.diagnosis import Diagnosis


@dataclass(frozen=True)
class Suspect:
    """One suspect.

    Attributes:
        key: its short name in a ledger (`ledger.get("ids")`).
        codes: findings of severity error that show it; none of them, where the slots could be identified, refutes it.
    """

    key: str
    claim: str
    prediction: str
    codes: tuple[str, ...]

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
        ("slot-permuted", "fc-order"),
    ),
    Suspect(
        "tp-shard",
        "a capture under tensor parallelism is local to a rank: a slice of the width",
        "each rank holds a slice, or the feed is no multiple of the hidden size",
        ("rank-feature-shard", "slot-count"),
    ),
    Suspect(
        "a2a-gather",
        "tokens are spread over ranks (an A2A backend) or not yet summed when they are tapped",
        "ranks hold other tokens of one request, or other values of the same tokens",
        ("rank-token-shard", "rank-partial-sum"),
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
        ("residual-omitted", "final-norm-applied", "scaled", "rotated", "stale-rows", "non-finite", "rows-missing"),
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
        of: the capture and the dump that it was made of.
    """
    errors = [finding for finding in diagnosis.findings if finding.severity == "error"]
    decided = diagnosis.verdict == "match" or any(s.served.boundary is not None for s in diagnosis.slots)
    verdicts = {}
    for suspect, h in zip(suspects, state_suspects(ledger, suspects).values(), strict=True):
        found = [finding for finding in errors if finding.code in suspect.codes]
        said = "; ".join(dict.fromkeys(finding.summary for finding in found))
        absent = f"none of {', '.join(suspect.codes)} was found"
        if suspect.key in ("tp-shard", "a2a-gather"):
            ranks = diagnosis.ranks.ranks
            absent += f" on {ranks} ranks" if ranks > 1 else ": this run has one rank, so nothing of it is spread"
        values = {
            "summary": said or absent,
            "codes": [finding.code for finding in found],
            "looked_for": list(suspect.codes),
            "slots": [finding.slot for finding in found],
            "n": diagnosis.aligned_tokens,
        }
        supports = True if found else (False if decided else None)
        e: Evidence = ledger.evidence(
            values, on=h, supports=supports, title=f"findings on {suspect.key}", of=of, unit="aligned tokens"
        )
        outcome = "confirmed" if found else "refuted" if decided else "inconclusive"
        reason = said or (
            f"{absent}, and the slots were identified" if decided else "the slots could not be identified"
        )
        verdicts[suspect.key] = ledger.verdict(h, outcome, because=[e], reason=reason)  # type: ignore[arg-type]
    return verdicts
