"""A saved /metrics page (Prometheus text): SGLang's gauges, vLLM's counters.

SGLang's gauges hold the mean of the *last* decode log interval, as its log's last line does; they are no counts, and
the page says nothing of the time before. vLLM's counters run from the server's start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from helpers.acceptance.sources.definition import DRAFTS_ONLY, KEPT_ONLY, WITH_BONUS, Printed, accept_rate, decide
from helpers.acceptance.sources.lines import Line
from helpers.acceptance.sources.result import Counters, Part, Size
from helpers.acceptance.sources.vllm_counts import Counts, counted
from helpers.errors import UsageError, WrongResult

_WANTED = re.compile(r"(?:sglang:(?:spec_|generation_tokens_total|num_requests_total)|vllm:spec_decode_)\w*")
_RANK_LABELS = ("dp_rank", "tp_rank", "pp_rank", "engine", "model_name", "instance")
_VLLM = "vllm:spec_decode_num_"

Series = dict[str, dict[tuple[tuple[str, str], ...], list[float]]]


def read_page(lines: Iterable[Line], *, engine: str | None = None, draft_tokens: int | None = None) -> Counters:
    """What a page says; of several scrapes in one file, the last value of each series.

    Raises:
        UsageError: ``WB-COUNTERS-NONE`` when the page has no acceptance figures.
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when its figures contradict each other.
    """
    series: Series = {}
    broken: list[Line] = []
    for line in lines:
        if not _WANTED.match(line.text):
            continue
        try:
            for name, labels, value in _samples(line.text):
                series.setdefault(name, {}).setdefault(tuple(sorted(labels.items())), []).append(value)
        except ValueError:
            broken.append(line)
    if f"{_VLLM}accepted_tokens_total" in series and f"{_VLLM}draft_tokens_total" in series:
        found = _vllm(series)
    elif "sglang:spec_accept_length" in series:
        found = _sglang(series, engine, draft_tokens)
    else:
        raise _none(f"the page has no acceptance figures ({len(series)} series of speculation in it)", broken)
    notes = [f"{len(broken)} broken lines left out, the first is line {broken[0].number}"] if broken else []
    return found.model_copy(update={"warnings": [*found.warnings, *notes]})


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if not math.isfinite(sample.value):
                raise ValueError("no number")
            yield sample.name, sample.labels, float(sample.value)


def _sglang(series: Series, engine: str | None, draft_tokens: int | None) -> Counters:
    lengths = {labels: values[-1] for labels, values in series["sglang:spec_accept_length"].items()}
    rates = {labels: values[-1] for labels, values in series.get("sglang:spec_accept_rate", {}).items()}
    told = {labels: int(values[-1]) for labels, values in series.get("sglang:spec_num_draft_tokens", {}).items()}
    live = {labels: value for labels, value in lengths.items() if value}
    if not live:
        raise _none(
            "sglang:spec_accept_length is 0: no decode log interval has ended yet, or the server does not speculate",
            [],
        )
    warnings: list[str] = []
    parts, rules = [], []
    for labels, length in live.items():
        n, rule = _decided(length, rates.get(labels), draft_tokens or told.get(labels) or None, engine)
        rules.append(rule)
        parts.append(
            Part(
                server=_name(labels),
                accept_length=length,
                accept_rate=accept_rate(length, n) if n else None,
                survival=[length - 1] if n == 2 else None,
                n=Size(verify_steps=None, lines=len(series["sglang:spec_accept_length"][labels])),
                num_draft_tokens=n,
            )
        )
    first, several = parts[0], len(parts) > 1
    if several:
        warnings.append(
            f"{len(parts)} servers or ranks, each with a mean and no counts: no figure for all; `parts` has each"
        )
    scrapes = sum(part.n.lines for part in parts)
    if scrapes > len(parts):
        warnings.append(f"{scrapes} samples of {len(parts)} series: the last of each is given, means are not averaged")
    if first.num_draft_tokens is None and not several:
        warnings.append("accept rate undecided: N is not known, and the figures fit several; give --draft-tokens N")
    return Counters(
        accept_length=None if several else first.accept_length,
        accept_rate=None if several else first.accept_rate,
        survival=None if several else first.survival,
        n=Size(verify_steps=None, lines=scrapes),
        source="sglang-metrics",
        definition=_definition(rules[0], first, rates.get(next(iter(live))), series, warnings),
        warnings=warnings,
        num_draft_tokens=first.num_draft_tokens if len({p.num_draft_tokens for p in parts}) == 1 else None,
        parts=parts if several else [],
    )


def _decided(length: float, rate: float | None, known: int | None, engine: str | None) -> tuple[int | None, str | None]:
    if rate is None:
        return known, None
    try:
        decision = decide({(Printed.exact(length), Printed.exact(rate)): 1}, known=known, engine=engine)
    except WrongResult:
        # A server sends all digits; a page that was edited may have rounded them.
        rounded = Printed.of(repr(length)), Printed.of(repr(rate))
        if max(len(repr(value).partition(".")[2]) for value in (length, rate)) > 4:
            raise
        decision = decide({rounded: 1}, known=known, engine=engine)
    return known or decision.n, decision.rule


def _definition(rule: str | None, part: Part, rate: float | None, series: Series, warnings: list[str]) -> str:
    text = (
        "spec_accept_length is tokens per verify step, bonus included: our accept length, but of the last decode log "
        "interval only (it equals the log's last line, not the run's mean). "
    )
    n = part.num_draft_tokens
    if rate is None:
        text += "The page has no spec_accept_rate. "
    elif rule == WITH_BONUS and part.accept_rate is not None:
        text += (
            f"spec_accept_rate is L/N (N = {n}), bonus counted: it says {rate:.3f} where correct / proposed drafts "
            f"is {part.accept_rate:.3f}. {KEPT_ONLY} "
        )
    elif rule == DRAFTS_ONLY:
        text += f"spec_accept_rate is (L-1)/(N-1) (N = {n}), correct / proposed drafts, as ours. "
    else:
        text += "Whether spec_accept_rate is L/N or (L-1)/(N-1) its figures do not tell. "
    calls, tokens, requests = (
        sum(values[-1] for values in series.get(name, {}).values())
        for name in ("sglang:spec_verify_calls_total", "sglang:generation_tokens_total", "sglang:num_requests_total")
    )
    if calls and requests:
        lifetime = (tokens - requests) / calls
        text += (
            f"Since the start, over finished requests: (generation tokens - requests) / verify calls = {lifetime:.3f} "
            "(each request's first token comes from the prefill; a last step that was cut short makes it smaller)."
        )
    return text.strip()


def _vllm(series: Series) -> Counters:
    last = {
        name.removeprefix(_VLLM): {labels: values[-1] for labels, values in by.items()} for name, by in series.items()
    }
    positions = last.get("accepted_tokens_per_pos_total", {})
    counts = {}
    for labels, accepted in last["accepted_tokens_total"].items():
        drafts = last.get("drafts_total", {}).get(labels)
        reached = {
            int(dict(key)["position"]): value
            for key, value in positions.items()
            if tuple(pair for pair in key if pair[0] != "position") == labels
        }
        _whole(accepted, drafts)
        counts[_name(labels)] = Counts(
            accepted=int(accepted),
            drafted=int(last["draft_tokens_total"].get(labels, 0)),
            steps=None if drafts is None else int(drafts),
            reached=tuple(reached[k] for k in sorted(reached)),
            lines=len(series[f"{_VLLM}accepted_tokens_total"][labels]),
        )
    active = {name: one for name, one in counts.items() if one.drafted}
    if not active:
        raise _none("vLLM's spec_decode counters are 0: nothing was drafted yet", [])
    if len(active) == 1:
        active = {"": next(iter(active.values()))}
    return counted(
        active,
        source="vllm-metrics",
        definition="counters since the server's start: num_drafts are verify steps, num_draft_tokens proposed drafts, "
        "num_accepted_tokens correct drafts (the bonus token is in none of them), accepted_tokens_per_pos at position "
        "k - 1 the steps that accepted at least k. Accept length is 1 + accepted / drafts. All as ours.",
    )


def _whole(accepted: float, drafts: float | None) -> None:
    for value in (accepted, drafts or 0.0):
        if value != int(value) or value < 0:
            raise WrongResult(
                "WB-COUNTERS-CONTRADICT",
                f"the server's figures contradict each other: counters are whole numbers gives {value:g}",
                expected="identity: counters are whole numbers",
                next="is the page a rate computed from counters? save the server's own /metrics",
            )


def _name(labels: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels if key in _RANK_LABELS)


def _none(met: str, broken: list[Line]) -> UsageError:
    return UsageError(
        "WB-COUNTERS-NONE",
        met,
        expected="sglang:spec_accept_length (--enable-metrics) or vllm:spec_decode_num_* with values",
        next="curl -s http://127.0.0.1:PORT/metrics > FILE after the load has run",
        lines=[f"line {line.number}: {line.text[:120]!r}" for line in broken[:3]],
    )
