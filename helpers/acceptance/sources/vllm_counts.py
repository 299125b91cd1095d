"""vLLM's counts, added up: from the lines of a log, or from the counters of a /metrics page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from helpers.acceptance.sources import pooling
from helpers.acceptance.sources.pooling import Weighed
from helpers.acceptance.sources.result import Counters, Part, Record, Size
from helpers.acceptance.sources.vllm_log import VllmLine
from helpers.errors import WrongResult


class Counts(Record):
    """Counts of one server: what all rates follow from.

    Attributes:
        steps: verify steps ("drafts" in vLLM's words); None where a source does not settle it.
        reached: ``reached[i]`` verify steps accepted at least i + 1 drafts (from rounded shares: not whole numbers).
    """

    accepted: int
    drafted: int
    steps: int | None
    reached: tuple[float, ...]
    lines: int

    @property
    def survival(self) -> list[float] | None:
        return [r / self.steps for r in self.reached] if self.steps and self.reached else None

    @property
    def accept_length(self) -> float | None:
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def accept_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None


@dataclass
class _Sum:
    accepted: int = 0
    drafted: int = 0
    steps: int | None = 0
    reached: list[float] = field(default_factory=list)
    lines: int = 0
    rows: list[Weighed] = field(default_factory=list)


class VllmLog:
    """Takes the lines of a log in order, and says at any time what they give."""

    def __init__(self) -> None:
        self._servers: dict[str, _Sum] = {}

    def add(self, line: VllmLine) -> None:
        total = self._servers.setdefault(line.server, _Sum())
        total.lines += 1
        total.accepted += line.accepted
        total.drafted += line.drafted
        if line.drafted == 0:
            return
        total.steps = None if total.steps is None or line.steps is None else total.steps + line.steps
        total.reached += [0.0] * (len(line.survival) - len(total.reached))
        for k, share in enumerate(line.survival):
            total.reached[k] += share * (line.steps or 0)
        if line.steps and len(total.rows) < 100_000:
            total.rows.append(Weighed(1, line.steps, 1 + line.accepted / line.steps, None))

    def result(self) -> tuple[Counters | None, list[str]]:
        if not self._servers:
            return None, []
        counts = {
            name: Counts(accepted=s.accepted, drafted=s.drafted, steps=s.steps, reached=tuple(s.reached), lines=s.lines)
            for name, s in self._servers.items()
        }
        rows = [row for s in self._servers.values() for row in s.rows]
        found = counted(
            counts,
            source="vllm-log",
            definition="'Accepted' and 'Drafted' are the interval's counts of draft tokens, so they add up: accept "
            "rate is their ratio. Verify steps are drafted / positions, checked against 'Mean acceptance length', "
            "which is 1 + accepted / verify steps, bonus token included: ours. 'Per-position acceptance rate' is S(k), "
            "counted in verify steps. All as ours; steps without drafts are in none of it.",
        )
        if found.n.verify_steps is None:
            found = found.model_copy(
                update={
                    "warnings": [
                        *found.warnings,
                        "verify steps cannot be told from some lines (drafts of unequal length, or lines without a "
                        "mean length): accept length is not told",
                    ]
                }
            )
        if rows and found.accept_length is not None:
            found = found.model_copy(
                update={
                    "accept_length_ci95": pooling.interval(rows),
                    "spread": pooling.spread(rows, "log interval"),
                    "warnings": [*found.warnings, *pooling.told(rows)],
                }
            )
        return found, []


def counted(counts: Mapping[str, Counts], *, source: str, definition: str) -> Counters:
    """The figures of one or more servers' counts, added up.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` naming the identity that does not hold.
    """
    for name, one in counts.items():
        _hold(one, f"{name}: " if name else "")
    total = total_of(list(counts.values()))
    warnings = []
    parts = []
    if len(counts) > 1:
        warnings.append(f"counts of {len(counts)} servers or engines are added up; `parts` has each")
        parts = [
            Part(
                server=name or "(no name)",
                accept_length=one.accept_length,
                accept_rate=one.accept_rate,
                survival=one.survival,
                n=Size(verify_steps=one.steps, lines=one.lines),
                num_draft_tokens=len(one.reached) + 1 if one.reached else None,
            )
            for name, one in counts.items()
        ]
    return Counters(
        accept_length=total.accept_length,
        accept_rate=total.accept_rate,
        survival=total.survival,
        n=Size(verify_steps=total.steps, lines=total.lines),
        source=source,
        definition=definition,
        warnings=warnings,
        num_draft_tokens=len(total.reached) + 1 if total.reached else None,
        parts=parts,
    )


def total_of(counts: Sequence[Counts]) -> Counts:
    width = max(len(c.reached) for c in counts)
    steps = [c.steps for c in counts]
    return Counts(
        accepted=sum(c.accepted for c in counts),
        drafted=sum(c.drafted for c in counts),
        steps=None if None in steps else sum(s for s in steps if s is not None),
        reached=tuple(sum(c.reached[k] for c in counts if k < len(c.reached)) for k in range(width)),
        lines=sum(c.lines for c in counts),
    )


def _hold(one: Counts, where: str) -> None:
    # Shares of a log are rounded to three decimals; counters are exact.
    slack = 0.0005 * (one.steps or 0) * max(1, len(one.reached)) + 1e-6
    checks: list[tuple[str, bool, str]] = [
        ("accepted <= drafted", one.accepted <= one.drafted, f"{one.accepted} against {one.drafted}"),
    ]
    if one.steps is not None:
        checks.append(
            ("a verify step drafts at least one token", one.steps <= one.drafted, f"{one.steps} against {one.drafted}")
        )
    if one.steps and one.reached:
        total = sum(one.reached)
        checks += [
            (
                "sum over positions of accepted tokens = accepted tokens",
                abs(total - one.accepted) <= slack,
                f"{total:g} against {one.accepted}",
            ),
            (
                "accepted at position k + 1 <= accepted at position k",
                all(b <= a + slack for a, b in zip(one.reached, one.reached[1:], strict=False)),
                ", ".join(f"{r:g}" for r in one.reached),
            ),
            (
                "accepted at position 0 <= verify steps",
                one.reached[0] <= one.steps + slack,
                f"{one.reached[0]:g} against {one.steps}",
            ),
        ]
    for identity, holds, met in checks:
        if not holds:
            raise WrongResult(
                "WB-COUNTERS-CONTRADICT",
                f"{where}the server's figures contradict each other: {identity} gives {met}",
                expected=f"identity: {identity}",
                next="keep the file; do not use its rates",
            )
