"""Counters in saved answers: whose record a JSON object is, and what it counts.

Kinds: SGLang's /generate (``meta_info``, names of 0.5.9 and of 0.5.23, alone or in a row of `workbook bench`), its
OpenAI endpoints from 0.5.23 (``sglext.spec_tokens_details``), and vLLM's (``metrics.speculative_decoding``,
https://github.com/vllm-project/vllm/pull/48915).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from helpers.acceptance.counters import CORRECT, HISTOGRAM, PROPOSED, Meanings, figure, from_meta_info, hold, meanings
from helpers.errors import UsageError


@dataclass(frozen=True)
class Answered:
    """One request's counters.

    Attributes:
        kind: ``sglang`` or ``vllm``.
        key: the server's id of the request; None where there is none.
        steps: verify steps; 0 for a request that was served without speculation.
        correct, proposed: None where an old version does not send them.
        completion: new tokens of the answer.
        meant: what the ratios in the answer are, by its own counts.
        arm: which server of a bench answered; None elsewhere.
        prompt: what was asked, where a record tells it: answers to one prompt, of several seeds or passes, are alike.
        failed: it did not come to its end; its counters are of a part.
    """

    kind: str
    key: str | None
    steps: int
    correct: int | None = None
    proposed: int | None = None
    histogram: tuple[int, ...] | None = None
    completion: int | None = None
    said_length: float | None = None
    meant: Meanings = field(default_factory=lambda: Meanings(None, None))
    arm: str | None = None
    prompt: str | None = None
    failed: bool = False


def answers_in(record: Any) -> Iterator[Answered]:
    """All answers in one JSON value.

    Raises:
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when an answer's figures contradict each other.
        UsageError: ``WB-COUNTERS-UNREADABLE`` when a figure is no number.
    """
    if isinstance(record, list):
        for one in record:
            yield from answers_in(one)
        return
    if not isinstance(record, dict):
        return
    try:
        yield from _of(record)
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "WB-COUNTERS-UNREADABLE",
            f"an answer's spec fields are no numbers ({error}): {str(record)[:200]}",
            expected="counts as whole numbers, the histogram as a list of them",
            next="save the answer as the server sent it",
        ) from error


def _of(record: Mapping[str, Any]) -> Iterator[Answered]:
    vllm = (record.get("metrics") or {}).get("speculative_decoding") if "metrics" in record else None
    extension = record.get("sglext")
    if isinstance(record.get("meta_info"), dict):
        told = _sglang(record["meta_info"])
        arm = record.get("arm")
        asked = record.get("prompt")
        prompt = asked if isinstance(asked, str) else None
        yield replace(told, arm=None if arm is None else str(arm), prompt=prompt, failed=record.get("ok") is False)
    elif isinstance(vllm, dict):
        yield _vllm(vllm, record)
    elif isinstance(extension, dict) and extension.get("spec_tokens_details"):
        details = extension["spec_tokens_details"]
        several = isinstance(details, list)
        usage = record.get("usage") or {}
        for number, one in enumerate(details if several else [details]):
            # The usage is of all choices together.
            completion = None if several else usage.get("completion_tokens")
            key = None if record.get("id") is None else f"{record['id']}/{number}"
            yield _sglang({**one, "completion_tokens": completion, "id": key})
    elif any(key.startswith("spec_") for key in record):
        yield _sglang(record)
    elif "answers" in record:
        yield from answers_in(record["answers"])
    elif "choices" in record or "text" in record:
        yield Answered("sglang", record.get("id"), 0)


def _sglang(meta: Mapping[str, Any]) -> Answered:
    key = meta.get("id")
    if not meta.get("spec_verify_ct"):
        return Answered("sglang", key, 0, completion=meta.get("completion_tokens"))
    meant = meanings(meta)
    steps, said = int(meta["spec_verify_ct"]), meta.get("spec_accept_length")
    if figure(meta, HISTOGRAM) and figure(meta, PROPOSED) is not None:
        counters = from_meta_info(meta)
        assert counters is not None
        correct, proposed, histogram = counters.correct, counters.proposed, counters.histogram
        return Answered("sglang", key, steps, correct, proposed, histogram, meta.get("completion_tokens"), said, meant)
    met, drafts = figure(meta, CORRECT), figure(meta, PROPOSED)
    return Answered(
        "sglang",
        key,
        steps,
        None if met is None else int(met),
        None if drafts is None else int(drafts),
        None,
        meta.get("completion_tokens"),
        said,
        meant,
    )


def _vllm(figures: Mapping[str, Any], record: Mapping[str, Any]) -> Answered:
    steps, correct = int(figures["num_spec_steps"]), int(figures["num_accepted_draft_tokens"])
    proposed = int(figures["num_draft_tokens"])
    histogram = figures.get("acceptance_histogram")
    if histogram is not None:
        hold("sum(histogram) = verify steps", sum(histogram), steps)
        hold("sum(i * histogram[i]) = correct drafts", sum(i * n for i, n in enumerate(histogram)), correct)
    if steps and figures.get("mean_acceptance_length") is not None:
        hold("mean_acceptance_length = 1 + accepted / steps", figures["mean_acceptance_length"], 1 + correct / steps)
    if proposed and figures.get("draft_acceptance_rate") is not None:
        hold("draft_acceptance_rate = accepted / drafted", figures["draft_acceptance_rate"], correct / proposed)
    return Answered(
        "vllm",
        record.get("id"),
        steps,
        correct,
        proposed,
        None if histogram is None else tuple(int(n) for n in histogram),
        (record.get("usage") or {}).get("completion_tokens"),
        figures.get("mean_acceptance_length"),
    )
