"""Saved answers, one JSON object a line or one document: their counts, added up over requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from helpers.acceptance.intervals import few, ratio_interval
from helpers.acceptance.sources.records import Answered
from helpers.acceptance.sources.result import Counters, Part, Size, spread_of
from helpers.errors import UsageError

#: Beyond this, N - 1 is no chain's length but the size of a tree.
LONGEST_CHAIN = 16
#: So far beyond the longest acceptance that was met, N - 1 may be the size of a tree as well as a chain's length.
MARGIN = 1

Units = Sequence[Sequence[Answered]]


class Responses:
    """Takes answers in any order, and says what they give together. Of a request told twice, the later one counts."""

    def __init__(self, *, num_steps: int | None = None) -> None:
        self.num_steps = num_steps
        self._answers: dict[str, Answered] = {}
        self._lines = self._again = self._failed = 0

    def add(self, answer: Answered) -> None:
        self._lines += 1
        if answer.failed:
            self._failed += 1
            return
        key = answer.key if answer.key is not None else f"line {self._lines}"
        met = self._answers.get(key)
        if met is not None:
            self._again += 1
            if met.steps > answer.steps:
                return
        self._answers[key] = answer

    def result(self) -> Counters:
        """Raises:
        UsageError: ``WB-COUNTERS-NONE`` when no answer was served with speculation.
        """
        rows = [answer for answer in self._answers.values() if answer.steps]
        without = len(self._answers) - len(rows)
        if not rows:
            failed = f", {self._failed} that did not come to their end" if self._failed else ""
            raise UsageError(
                "WB-COUNTERS-NONE",
                f"{without} answers, none of them served with speculation{failed}",
                expected="JSON answers whose meta_info has spec_verify_ct above 0",
                next="is the server one with speculation? workbook runs BOX; is the file a log? --kind log",
            )
        warnings = []
        if self._failed:
            warnings.append(f"{self._failed} requests that did not come to their end are left out")
        if without:
            warnings.append(f"{without} of {len(self._answers)} answers have no speculation counters: left out")
        if self._again:
            warnings.append(
                f"{self._again} answers have the id of an earlier one (chunks of a stream, or a request told twice): "
                "of each request the most complete counts"
            )
        if any(row.correct is None for row in rows):
            return self._by_tokens(rows, warnings)
        found = self._by_counts(rows, warnings)
        arms = list(dict.fromkeys(row.arm for row in rows))
        if len(arms) < 2:
            return found
        parts = [self._part(str(arm), [row for row in rows if row.arm == arm]) for arm in arms]
        each = ", ".join(f"{part.server} {part.accept_length:.2f}" for part in parts)
        told = f"answers of {len(arms)} servers ({each}): the figures above mix them; `parts` has each"
        return found.model_copy(update={"parts": parts, "warnings": [*found.warnings, told]})

    def _by_counts(self, rows: Sequence[Answered], warnings: list[str]) -> Counters:
        steps, correct = sum(r.steps for r in rows), sum(r.correct or 0 for r in rows)
        told = all(r.proposed for r in rows)
        proposed = sum(r.proposed or 0 for r in rows)
        widths = {-(-(r.proposed or 0) // r.steps) for r in rows}
        if len(widths) > 1 and told:
            warnings.append(
                f"answers of different configurations: {sorted(widths)} drafts a verify step; they are pooled"
            )
        histogram = self._histogram(rows, max(widths), warnings)
        if not told:
            warnings.append("the number of proposed drafts is not in every answer: accept rate not told")
        units = _units(rows)
        tops, bottoms = _sums(units, lambda r: r.correct or 0), _sums(units, lambda r: r.steps)
        several = len(units) > 1
        warnings += _told_of(units, rows)
        ci = ratio_interval(tops, bottoms) if several else None
        kind = rows[0].kind
        whole = all(r.completion for r in rows)
        kept = sum((r.completion or 0) - 1 for r in rows) / steps if whole else None
        return Counters(
            accept_length=1 + correct / steps,
            accept_rate=correct / proposed if told else None,
            survival=None if histogram is None else [sum(histogram[k:]) / steps for k in range(1, len(histogram))],
            n=Size(verify_steps=steps, lines=len(rows)),
            source=f"{kind}-responses",
            definition=_definition(rows, 1 + correct / steps, kept),
            warnings=warnings,
            num_draft_tokens=widths.pop() + 1 if len(widths) == 1 and told else None,
            histogram=histogram,
            survival_ci95=self._survival_ci(units, histogram),
            tokens_per_step=kept,
            accept_length_ci95=(1 + ci[0], 1 + ci[1]) if ci else None,
            accept_rate_ci95=ratio_interval(tops, _sums(units, lambda r: r.proposed or 0))
            if several and told
            else None,
            spread=spread_of([1 + (r.correct or 0) / r.steps for r in rows], "request"),
        )

    def _part(self, name: str, rows: Sequence[Answered]) -> Part:
        one = self._by_counts(rows, [])
        return Part(
            server=name,
            accept_length=one.accept_length,
            accept_rate=one.accept_rate,
            survival=one.survival,
            n=one.n,
            num_draft_tokens=one.num_draft_tokens,
        )

    def _histogram(self, rows: Sequence[Answered], width: int, warnings: list[str]) -> list[int] | None:
        if any(r.histogram is None for r in rows):
            warnings.append("no histogram in some answers: survival not told")
            return None
        longest = max(len(r.histogram or ()) for r in rows) - 1
        drafts = width
        if self.num_steps is not None:
            width = max(self.num_steps, longest)
            if drafts > self.num_steps:
                warnings.append(
                    f"{drafts} drafts a verify step in {self.num_steps} draft steps are a tree: at most "
                    f"{self.num_steps} of them can be accepted, and this accept rate is not comparable with a chain's"
                )
        elif width > longest + MARGIN:
            if width > LONGEST_CHAIN:
                warnings.append(
                    f"{width} drafts a verify step are a tree's size, not its depth: survival ends at {longest}, the "
                    "longest acceptance met; this accept rate is not comparable with a chain's"
                )
            else:
                warnings.append(
                    f"whether {width} drafts a verify step are a chain's length or a tree's size these counts do not "
                    f"tell: survival ends at {longest}, the longest acceptance met; of a tree the accept rate is not "
                    "comparable with a chain's (--num-steps says how deep it is)"
                )
            width = longest
        width = max(width, longest, 1)
        return [sum(r.histogram[i] for r in rows if r.histogram and i < len(r.histogram)) for i in range(width + 1)]

    @staticmethod
    def _survival_ci(units: Units, histogram: list[int] | None) -> list[tuple[float, float]] | None:
        if histogram is None or len(units) < 2:
            return None
        steps = _sums(units, lambda r: r.steps)
        reached = [_sums(units, partial(_at_least, k)) for k in range(1, len(histogram))]
        return [ratio_interval(at_least, steps) for at_least in reached]

    @staticmethod
    def _by_tokens(rows: Sequence[Answered], warnings: list[str]) -> Counters:
        """Old answers: verify steps and completion tokens only."""
        used = [r for r in rows if r.completion]
        if not used:
            raise UsageError(
                "WB-COUNTERS-UNREADABLE",
                f"{len(rows)} answers have spec_verify_ct, and neither correct drafts nor completion_tokens",
                expected="spec_accept_token_num, spec_num_correct_drafts or completion_tokens beside spec_verify_ct",
                next="save the whole meta_info",
            )
        warnings.append("no count of correct drafts: accept length from completion tokens, accept rate not told")
        units = _units(used)
        tops, bottoms = _sums(units, lambda r: (r.completion or 1) - 1), _sums(units, lambda r: r.steps)
        warnings += _told_of(units, used)
        return Counters(
            accept_length=sum(tops) / sum(bottoms),
            accept_rate=None,
            survival=None,
            n=Size(verify_steps=sum(r.steps for r in used), lines=len(used)),
            source=f"{rows[0].kind}-responses",
            definition="(completion tokens - 1) / verify steps, pooled: the first token comes from the prefill. A last "
            "step that was cut short (stop, length) makes it smaller than 1 + correct / verify steps.",
            warnings=warnings,
            accept_length_ci95=ratio_interval(tops, bottoms) if len(units) > 1 else None,
            spread=spread_of([((r.completion or 1) - 1) / r.steps for r in used], "request"),
        )


def pooled(answers: Iterable[Answered], *, num_steps: int | None = None) -> Counters:
    """The counts of several answers, added up."""
    together = Responses(num_steps=num_steps)
    for answer in answers:
        together.add(answer)
    return together.result()


def _units(rows: Sequence[Answered]) -> Units:
    """What intervals draw: the answers to one prompt together; where no prompt is told, each answer by itself."""
    found: dict[tuple[str, ...], list[Answered]] = {}
    for number, row in enumerate(rows):
        found.setdefault(("line", str(number)) if row.prompt is None else ("prompt", row.prompt), []).append(row)
    return list(found.values())


def _sums(units: Units, count: Callable[[Answered], int]) -> list[float]:
    return [float(sum(count(row) for row in unit)) for unit in units]


def _at_least(k: int, row: Answered) -> int:
    return sum((row.histogram or ())[k:])


def _told_of(units: Units, rows: Sequence[Answered]) -> list[str]:
    """What has to be said of the units: that they are prompts, and that they are few."""
    told = [f"{len(rows)} answers to {len(units)} prompts: intervals draw prompts"] if len(units) < len(rows) else []
    few_of = few(len(units)) if len(rows) > 1 else None
    return told if few_of is None else [*told, few_of]


def _definition(rows: Sequence[Answered], length: float, kept: float | None) -> str:
    if rows[0].kind == "vllm":
        return (
            "num_spec_steps, num_accepted_draft_tokens and num_draft_tokens are counts of each request, added up: "
            "mean_acceptance_length is 1 + accepted / steps and draft_acceptance_rate accepted / drafted, as ours."
        )
    rates = {r.meant.rate for r in rows} - {None}
    text = (
        "counts of each request, added up: correct drafts, proposed drafts (N - 1 in each verify step), verify steps. "
    )
    if rates == {"correct / proposed drafts"}:
        text += "spec_accept_rate in meta_info is correct / proposed drafts, as ours. "
    elif rates:
        text += f"spec_accept_rate in meta_info is {' or '.join(sorted(map(str, rates)))}; ours is correct / proposed. "
    told = [r for r in rows if r.completion and r.said_length is not None]
    if told and {r.meant.length for r in told} == {"1 + correct / verify steps"}:
        text += "spec_accept_length is 1 + correct / verify steps, as ours. "
    elif told:
        said = sum(r.completion or 0 for r in told) / sum(r.steps for r in told)
        text += (
            f"spec_accept_length is completion tokens / verify steps, {said:.3f} here, where 1 + correct / verify "
            f"steps is {length:.3f}: the first token of each answer comes from the prefill, and drafts beyond an "
            "answer's end are counted as correct but not given out. "
        )
    if kept is not None and abs(kept - length) >= 0.005:
        text += (
            f"Without those drafts it is (completion tokens - 1) / verify steps = {kept:.3f}: that is what the log, "
            "/metrics and /server_info of SGLang 0.5.9 say of the same requests."
        )
    return text.strip()
