"""Which of its two meanings a server's ``accept rate`` has, decided by whether its own figures fit.

=================  ======================================================================================
``L/N``            tokens per verify step, the bonus token counted, over num_draft_tokens: SGLang 0.5.9 and
                   0.5.10, log and /metrics. Its floor is 1/N: with no draft accepted it still says .25 at N = 4
``(L-1)/(N-1)``    correct over proposed drafts: SGLang 0.5.23, log and /metrics; meta_info in all versions
=================  ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from helpers.errors import UsageError, WrongResult
from helpers.source.versions import is_before

WITH_BONUS, DRAFTS_ONLY = "L/N", "(L-1)/(N-1)"
RULES = (WITH_BONUS, DRAFTS_ONLY)
#: What the log, /metrics and /server_info of 0.5.9 leave out (speculative/eagle_info.py cuts before it counts).
KEPT_ONLY = (
    "Drafts beyond a request's end are not counted (meta_info counts them): over the same verify steps this is the "
    "lower of the two, by at most num_steps tokens an answer."
)
#: N beyond this is not looked for; SGLang's largest trees have 64 tokens.
LARGEST = 128


@dataclass(frozen=True)
class Printed:
    """A figure as it was printed: somewhere within half a unit of its last digit."""

    value: float
    half: float

    @classmethod
    def of(cls, text: str) -> Printed:
        """
        >>> Printed.of("2.35")
        Printed(value=2.35, half=0.005)
        """
        decimals = len(text.partition(".")[2])
        return cls(float(text), 0.5 * 10.0**-decimals)

    @classmethod
    def exact(cls, value: float) -> Printed:
        """A figure that was given with all its digits."""
        return cls(value, 1e-9 * max(1.0, abs(value)))


@dataclass(frozen=True)
class Decision:
    """What the figures allow.

    Attributes:
        candidates: (rule, N) pairs under which every line fits.
        fits: how many lines each rule fits (with N known), else 0 or all.
        by: ``figures``, ``engine`` where only the engine's version told the rules apart, None where nothing did.
    """

    candidates: tuple[tuple[str, int], ...]
    fits: dict[str, int]
    lines: int
    by: str | None

    @property
    def rule(self) -> str | None:
        rules = {rule for rule, _ in self.candidates}
        return rules.pop() if len(rules) == 1 else None

    @property
    def n(self) -> int | None:
        numbers = {n for _, n in self.candidates}
        return numbers.pop() if len(numbers) == 1 else None


def fits(rule: str, n: int, length: Printed, rate: Printed) -> bool:
    """Whether a length and a rate, each rounded, can stand for the same counts.

    >>> fits("L/N", 4, Printed.of("2.17"), Printed.of("0.54")), fits("(L-1)/(N-1)", 4, Printed.of("2.17"), Printed.of("0.54"))
    (True, False)
    """  # noqa: E501
    over, bonus = (n, 0) if rule == WITH_BONUS else (n - 1, 1)
    return abs((length.value - bonus) / over - rate.value) <= length.half / over + rate.half + 1e-9


def decide(
    pairs: Mapping[tuple[Printed, Printed], int], *, known: int | None = None, engine: str | None = None
) -> Decision:
    """Decides from (accept length, accept rate) pairs and how often each was met.

    Args:
        known: num_draft_tokens, where the source told it.
        engine: such as ``sglang==0.5.9``; looked at only where the figures fit both rules.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when no rule fits all lines.
    """
    lines = sum(pairs.values())
    numbers = [known] if known else [n for n in range(2, LARGEST + 1) if all(_in_reach(n, a) for a, _ in pairs)]
    found = {
        (rule, n): sum(times for (a, r), times in pairs.items() if fits(rule, n, a, r))
        for rule in RULES
        for n in numbers
    }
    candidates = tuple(pair for pair, fitting in found.items() if fitting == lines)
    best = {rule: max((count for (r, _), count in found.items() if r == rule), default=0) for rule in RULES}
    if not candidates:
        raise _contradiction(pairs, known, best, lines)
    rules = {rule for rule, _ in candidates}
    if len(rules) == 1:
        return Decision(candidates, best, lines, "figures")
    told = rule_of(engine)
    if told is None:
        return Decision(candidates, best, lines, None)
    return Decision(tuple(c for c in candidates if c[0] == told), best, lines, "engine")


def rule_of(engine: str | None) -> str | None:
    """The rule that a released version prints; None for versions between those that were read.

    >>> rule_of("sglang==0.5.9"), rule_of("sglang==0.5.23"), rule_of("sglang==0.5.15")
    ('L/N', '(L-1)/(N-1)', None)
    """
    if engine is None:
        return None
    named = re.fullmatch(r"sglang==(\d+)\.(\d+)\.(\d+)\S*", engine)
    if named is None:
        if engine.startswith("vllm=="):
            return None
        raise UsageError(
            "WB-USAGE",
            f"--engine {engine!r} names no version",
            expected="sglang==0.5.9",
            next="workbook counters FILE --engine sglang==0.5.9",
        )
    version = tuple(int(part) for part in named.groups())
    if version <= (0, 5, 10):
        return WITH_BONUS
    return None if is_before(engine.partition("==")[2], (0, 5, 23)) else DRAFTS_ONLY


def accept_rate(length: float, n: int) -> float:
    """Correct / proposed drafts from the accept length: N - 1 drafts are proposed in each verify step."""
    return (length - 1) / (n - 1)


def _in_reach(n: int, length: Printed) -> bool:
    return length.value - length.half <= n


def _contradiction(
    pairs: Mapping[tuple[Printed, Printed], int], known: int | None, best: Mapping[str, int], lines: int
) -> WrongResult:
    shown = next(
        ((a, r) for a, r in pairs if known and not any(fits(rule, known, a, r) for rule in RULES)), next(iter(pairs))
    )
    which = f"N = {known}" if known else f"any N up to {LARGEST}"
    counts = ", ".join(f"{rule} fits {count} of {lines}" for rule, count in best.items())
    return WrongResult(
        "WB-COUNTERS-CONTRADICT",
        f"the server's figures contradict each other: accept len {shown[0].value:g} with accept rate "
        f"{shown[1].value:g} is neither L/N nor (L-1)/(N-1) throughout, for {which} ({counts})",
        expected="identity: accept rate = L/N on every line, or accept rate = (L-1)/(N-1) on every line",
        next="were two servers' logs joined, or the engine edited? keep the file; do not use its rates",
    )
