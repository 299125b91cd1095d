"""All checks over one launch, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from helpers.paths import finding_page
from helpers.serving.preflight import engine, ids, patched, rope, vocabulary, weights, widths
from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding
from helpers.source.as_served import AsServed
from helpers.source.excerpts import shown
from helpers.source.reading import WiringReport

CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    engine.check,
    patched.check,
    ids.check,
    widths.check,
    vocabulary.check,
    weights.check,
    rope.check,
)
_ORDER = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Preflight:
    """What was found about one launch before it was made.

    Attributes:
        served: how the source that was judged differs from the one that is there now.
        findings: the gravest first. unread: what no check could look at -> why. wiring: the source's statements.
    """

    profile: str
    source: str
    version: str | None
    findings: tuple[Finding, ...]
    unread: dict[str, str]
    wiring: WiringReport | None
    served: AsServed = field(default_factory=AsServed)

    @property
    def good(self) -> bool:
        """No finding is an error or a warning."""
        return all(finding.severity == "info" for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "profile": self.profile,
            "source": self.source,
            "version": self.version,
            "judged_with": list(self.served.patches),
            "checkout_differs": self.served.differs,
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
            "unread": self.unread,
            "wiring": self.wiring.record() if self.wiring else None,
        }

    def __str__(self) -> str:
        good = "nothing found" if not self.findings else f"{len(self.findings)} found"
        lines = [f"{self.profile} on sglang {self.version} ({self.source}): {good}"]
        if self.served.patches:
            lines.append(f"judged as it will be served: the stock source with {', '.join(self.served.patches)} put in")
        if self.served.extra:
            lines.append(f"judged without {', '.join(self.served.extra)}, which the profile does not name")
        if self.served.edited:
            lines.append(f"judged with other edits that were found in {', '.join(self.served.edited)}")
        for finding in self.findings:
            lines.append(f"{finding.severity} {finding.code}: {finding.summary}")
            for line in finding.evidence.get("lines", []):
                lines.append(f"    {line['file']}:{line['line']}: {shown(line['text'].strip())}")
            lines += [f"    | {shown(line)}" for line in finding.evidence.get("hunk", [])]
            if fix := finding.evidence.get("fix"):
                lines.append(f"    fix: {fix}")
            lines.append(f"    page: {finding_page(finding.code)}")
        lines += [f"not looked at: {what}: {why}" for what, why in self.unread.items()]
        return "\n".join(lines)


def examine(facts: Facts) -> Preflight:
    """Run all checks. Nothing is asked of anybody: what they need is in ``facts``."""
    findings = [finding for check in CHECKS for finding in check(facts)]
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    return Preflight(
        facts.profile.name,
        facts.source.name,
        facts.source.version,
        tuple(findings),
        facts.unread,
        facts.wiring,
        facts.served,
    )
