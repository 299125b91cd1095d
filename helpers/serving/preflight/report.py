"""All checks over one launch, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from helpers.serving.preflight import engine, ids, rope, vocabulary, weights, widths
from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding
from helpers.source.excerpts import shown
from helpers.source.reading import WiringReport

CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    engine.check,
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
        findings: the gravest first. unread: what no check could look at -> why. wiring: the source's statements.
    """

    profile: str
    source: str
    version: str | None
    findings: tuple[Finding, ...]
    unread: dict[str, str]
    wiring: WiringReport | None

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
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
            "unread": self.unread,
            "wiring": self.wiring.record() if self.wiring else None,
        }

    def __str__(self) -> str:
        good = "nothing found" if not self.findings else f"{len(self.findings)} found"
        lines = [f"{self.profile} on sglang {self.version} ({self.source}): {good}"]
        for finding in self.findings:
            lines.append(f"{finding.severity} {finding.code}: {finding.summary}")
            for line in finding.evidence.get("lines", []):
                lines.append(f"    {line['file']}:{line['line']}: {shown(line['text'].strip())}")
            if fix := finding.evidence.get("fix"):
                lines.append(f"    fix: {fix}")
        lines += [f"not looked at: {what}: {why}" for what, why in self.unread.items()]
        return "\n".join(lines)


def examine(facts: Facts) -> Preflight:
    """Run all checks. Nothing is asked of anybody: what they need is in ``facts``."""
    findings = [finding for check in CHECKS for finding in check(facts)]
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    return Preflight(
        facts.profile.name, facts.source.name, facts.source.version, tuple(findings), facts.unread, facts.wiring
    )
