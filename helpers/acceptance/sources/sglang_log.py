"""What all decode lines of a log say together, server by server and start by start."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from helpers.acceptance.sources import pooling
from helpers.acceptance.sources.decode_log import DecodeLine, Start
from helpers.acceptance.sources.definition import (
    KEPT_ONLY,
    RULES,
    WITH_BONUS,
    Decision,
    Printed,
    accept_rate,
    decide,
    rule_of,
)
from helpers.acceptance.sources.pooling import Weighed
from helpers.acceptance.sources.result import Counters, Part, Size
from helpers.errors import WrongResult

WEIGHTS = (
    "each line's mean counts for its #running-req: a line covers a fixed number of decode batches "
    "(--decode-log-interval), and a batch makes one verify step per running request. The number is the one at the "
    "interval's end; verify steps themselves are not in the log"
)
#: A first line whose throughput is below this share of the following ones' includes the time since the start.
SLOW = 0.25


@dataclass
class Segment:
    """One server from one start to the next. Equal lines are kept as counts.

    Attributes:
        started: the log shows the start, so its first decode line is warm-up.
        first: that line, kept apart.
        groups: (accept length, accept rate, running) as printed, and how many lines.
    """

    server: str
    started: bool
    config: dict[str, int]
    number: int
    first: DecodeLine | None = None
    groups: Counter[tuple[str, str | None, int]] = field(default_factory=Counter)
    throughputs: list[float] = field(default_factory=list)
    varying: bool = False

    def add(self, line: DecodeLine) -> None:
        assert line.accept_length is not None
        self.varying |= line.varying
        if self.first is None:
            self.first = line
            return
        if line.throughput is not None and len(self.throughputs) < 200:
            self.throughputs.append(line.throughput)
        self.groups[line.accept_length, line.accept_rate, line.running] += 1

    @property
    def slow_first(self) -> bool:
        return bool(
            self.first
            and self.first.throughput is not None
            and self.throughputs
            and self.first.throughput < SLOW * statistics.median(self.throughputs)
        )

    def used(self) -> Counter[tuple[str, str | None, int]]:
        """All lines but the warm-up."""
        if self.first is None or self.started or self.slow_first:
            return self.groups
        line = self.first
        assert line.accept_length is not None
        return self.groups + Counter([(line.accept_length, line.accept_rate, line.running)])


class DecodeLog:
    """Takes decode lines and signs of a start in the log's order, and says at any time what they give."""

    def __init__(self, *, engine: str | None = None, draft_tokens: int | None = None) -> None:
        self.engine, self.draft_tokens = engine, draft_tokens
        self.segments: dict[tuple[str, int], Segment] = {}
        self.plain = 0
        self._starts: dict[str, int] = {}
        self._ranks: dict[str, int] = {}
        self._config: dict[str, dict[str, int]] = {}
        self._decoded: set[str] = set()

    def start(self, sign: Start) -> None:
        """Four lines of one start are one start; the server's arguments hold until the next."""
        service, last = sign.service, self._ranks.get(sign.service)
        if last is None or sign.rank < last or (sign.rank == last and service in self._decoded):
            self._starts[service] = self._starts.get(service, 0) + 1
            self._decoded.discard(service)
        self._ranks[service] = sign.rank
        if sign.rank == 0:
            self._config[service] = sign.config

    def add(self, line: DecodeLine, service: str) -> None:
        self._decoded.add(service)
        if line.accept_length is None:
            self.plain += 1
            return
        number = self._starts.get(service, 0)
        key = (line.server, number)
        if key not in self.segments:
            config = self._config.get(service, {})
            varying = bool(config.get("adaptive"))
            self.segments[key] = Segment(line.server, number > 0, config, number, varying=varying)
        self.segments[key].add(line)

    def result(self) -> tuple[Counters | None, list[str]]:
        """The figures, None where no line is left, and what to know about them."""
        warnings: list[str] = []
        read = [(segment, *self._read(segment, warnings)) for segment in self.segments.values() if segment.used()]
        self._tell_warmup(warnings)
        if not read:
            return None, warnings
        rows = [row for _, found, _ in read for row in found]
        decisions = [decision for _, _, decision in read]
        names = list(dict.fromkeys(segment.server for segment, _, _ in read))
        rate = pooling.pooled_rate(rows)
        numbers = {row.n for row in rows}
        n = numbers.pop() if len(numbers) == 1 else None
        ci = pooling.interval(rows)
        length = pooling.pooled(rows)
        parts = [self._part(name, [r for s, found, _ in read if s.server == name for r in found]) for name in names]
        if len(names) > 1:
            each = ", ".join(f"{p.server or '(no prefix)'} {p.accept_length:.2f}" for p in parts)
            warnings.append(
                f"lines of {len(names)} servers or ranks, told apart by their prefixes ({each}): the figures above are "
                "all of them together, weighed alike; `parts` has each"
            )
        if len({tuple(sorted(s.config.items())) for s, _, _ in read}) > 1:
            warnings.append("the log holds starts with different speculation settings; see its server_args lines")
        warnings += pooling.told(rows)
        return Counters(
            accept_length=length,
            accept_rate=rate,
            survival=[length - 1] if n == 2 else None,
            n=Size(verify_steps=None, lines=sum(r.lines for r in rows)),
            source="sglang-log",
            definition=_definition(read, decisions, length, rate),
            warnings=warnings,
            num_draft_tokens=n,
            accept_length_ci95=ci,
            accept_rate_ci95=(accept_rate(ci[0], n), accept_rate(ci[1], n)) if ci and n and rate is not None else None,
            weights=WEIGHTS,
            spread=pooling.spread(rows, "log interval"),
            parts=parts if len(parts) > 1 else [],
        ), warnings

    def _read(self, segment: Segment, warnings: list[str]) -> tuple[list[Weighed], Decision | None]:
        used = segment.used()
        known = self.draft_tokens or segment.config.get("num_draft_tokens")
        pairs: Counter[tuple[Printed, Printed]] = Counter()
        for (length, rate, _), lines in used.items():
            _in_bounds(length, None if segment.varying else known)
            if rate is not None:
                pairs[Printed.of(length), Printed.of(rate)] += lines
        decision = None
        if pairs and not segment.varying:
            decision = decide(pairs, known=known, engine=self.engine)
        n = known or (decision.n if decision else None)
        self._tell(segment, decision, n, warnings)
        if segment.varying:
            n = None
        rows = [Weighed(count, max(running, 1), float(length), n) for (length, _, running), count in used.items()]
        return rows, decision

    def _tell(self, segment: Segment, decision: Decision | None, n: int | None, warnings: list[str]) -> None:
        where = f"{segment.server}: " if segment.server else ""
        if segment.varying:
            _once(
                warnings,
                f"{where}verify windows vary (cap len, or adaptive steps): not N - 1 drafts a step, so no rate",
            )
        elif decision is None and n is None:
            _once(warnings, f"{where}no accept rate in the lines and no num_draft_tokens: rate not told")
        elif decision and n is None:
            met = ", ".join(f"{rule} with N = {number}" for rule, number in decision.candidates[:6])
            _once(warnings, f"{where}accept rate undecided: the figures fit {met}; give --draft-tokens N or --engine")
        elif decision and decision.rule is None:
            _once(warnings, f"{where}which accept rate the log prints cannot be told: its figures fit L/N and")
            warnings[-1] += f" (L-1)/(N-1) alike; with N = {n} known, ours follows from accept len all the same"
        printed = rule_of(self.engine)
        if decision and decision.rule and printed and decision.rule != printed:
            _once(
                warnings, f"{where}the figures are {decision.rule}, but {self.engine} prints {printed}: another version"
            )
        topk, steps = segment.config.get("topk", 1), segment.config.get("num_steps")
        if topk > 1 and n:
            _once(
                warnings,
                f"{where}topk = {topk}: N - 1 = {n - 1} is the size of the tree, of which at most num_steps"
                f"{f' = {steps}' if steps else ''} can be accepted; this accept rate is not comparable with a chain's",
            )
        if any(running == 0 for _, _, running in segment.used()):
            _once(warnings, f"{where}lines with #running-req 0 count as one request")

    def _tell_warmup(self, warnings: list[str]) -> None:
        dropped = [s for s in self.segments.values() if s.first and (s.started or s.slow_first)]
        for segment in dropped:
            line = segment.first
            assert line is not None
            why = "the first after a start" if segment.started else "its throughput includes the time since a start"
            where = f"{segment.server}: " if segment.server else ""
            warnings.append(
                f"{where}warm-up line dropped ({line.time or 'no time'}: accept len {line.accept_length}, "
                f"gen throughput {line.throughput}): {why}"
            )
        if not dropped and self.segments:
            warnings.append("no start of a server in this log and no slow first line: no line was dropped as warm-up")
        if self.plain:
            warnings.append(f"{self.plain} decode lines without speculation figures were left out")

    @staticmethod
    def _part(name: str, rows: Sequence[Weighed]) -> Part:
        length, numbers = pooling.pooled(rows), {row.n for row in rows}
        n = numbers.pop() if len(numbers) == 1 else None
        return Part(
            server=name or "(no prefix)",
            accept_length=length,
            accept_rate=pooling.pooled_rate(rows),
            survival=[length - 1] if n == 2 else None,
            n=Size(verify_steps=None, lines=sum(r.lines for r in rows)),
            num_draft_tokens=n,
        )


def _definition(
    read: Sequence[tuple[Segment, list[Weighed], Decision | None]],
    decisions: Sequence[Decision | None],
    length: float,
    rate: float | None,
) -> str:
    text = "'accept len' is tokens per verify step over one log interval, the bonus token included: our accept length. "
    rules = {decision.rule if decision else None for decision in decisions}
    if not any(decisions):
        if any(segment.varying for segment, _, _ in read):
            return text + "'accept rate' is not read: verify windows vary."
        return text + "The lines print no accept rate; ours is (L - 1) / (N - 1) where N is known."
    if len(rules) > 1 or rules == {None}:
        return text + "What 'accept rate' means here the figures do not tell: L/N and (L-1)/(N-1) both fit."
    rule = rules.pop()
    total = sum(d.lines for d in decisions if d)
    counts = ", ".join(f"{r} fits {sum(d.fits[r] for d in decisions if d)} of {total} lines" for r in RULES)
    known = {row.n for _, rows, _ in read for row in rows} - {None}
    of = f" (N = {', '.join(str(n) for n in sorted(known, key=str))})" if known else ""
    by = "" if all(d.by == "figures" for d in decisions if d) else "; both fit, and the engine's version decided"
    text += f"'accept rate' is {rule}{of}: {counts}{by}. "
    if rule == WITH_BONUS:
        text += "That counts the bonus token and never falls below 1/N; "
        said = [length / n for n in known if n]
        if rate is not None and len(said) == 1:
            text += f"it says {said[0]:.3f} where correct / proposed drafts is {rate:.3f}."
        else:
            text += "ours is (L - 1) / (N - 1)."
        text += f" {KEPT_ONLY} A log's intervals are other steps than those of the answers alone (the warm-up line is "
        text += "left out, what came after the last line is not in it), so it may stand above them too."
    else:
        text += "That is correct / proposed drafts, as ours."
    return text


def _in_bounds(length: str, known: int | None) -> None:
    printed = Printed.of(length)
    if printed.value + printed.half < 1 or (known and printed.value - printed.half > known):
        raise WrongResult(
            "WB-COUNTERS-CONTRADICT",
            f"the server's figures contradict each other: accept len {length} with num_draft_tokens {known}",
            expected="identity: 1 <= accept len <= num_draft_tokens (a verify step gives the bonus token at least)",
            next="is the log's server_args line that of these decode lines? keep the file; do not use its rates",
        )


def _once(warnings: list[str], text: str) -> None:
    if text not in warnings:
        warnings.append(text)
