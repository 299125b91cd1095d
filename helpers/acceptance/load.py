"""Sends prompts to a server's /generate and keeps what it answered, one request after the other.

One at a time on purpose: with a batch the arithmetic's order changes with who shares it, and greedy texts of two
configurations could then differ for a reason that is not the drafter's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from helpers.acceptance.counters import RequestCounters, from_meta_info
from helpers.acceptance.prompts import Prompt
from helpers.errors import RemoteFailed
from helpers.progress import progress as show_progress


@dataclass(frozen=True)
class Answer:
    """One request as it was answered.

    Attributes:
        output_ids: the new tokens, without the prompt.
        counters: None when the server does not speculate.
        seconds: wall clock of the request, over the tunnel.
    """

    id: str
    output_ids: tuple[int, ...]
    counters: RequestCounters | None
    seconds: float


@dataclass(frozen=True)
class Load:
    """All answers of one server to one prompt file, greedy, one request at a time."""

    answers: tuple[Answer, ...]
    max_new_tokens: int

    @property
    def tokens_per_s(self) -> float:
        """New tokens per second of request time (prefill included)."""
        return sum(len(a.output_ids) for a in self.answers) / sum(a.seconds for a in self.answers)

    @property
    def counters(self) -> list[RequestCounters]:
        return [a.counters for a in self.answers if a.counters is not None]


def run_load(
    url: str, prompts: Sequence[Prompt], *, max_new_tokens: int = 64, title: str = "load", progress: bool = True
) -> Load:
    """Greedy continuation of every prompt, `max_new_tokens` each, end-of-text ignored so that lengths are equal.

    One short request before the first is thrown away: the first decode after a start is slower than the rest.

    Args:
        url: the server's base address, such as ``http://127.0.0.1:31000`` (a tunnel's).

    Raises:
        RemoteFailed: ``WB-LOAD-FAILED`` with the request's id, when the server refuses or stops answering.
    """
    answers: list[Answer] = []
    with (
        httpx.Client(base_url=url, timeout=httpx.Timeout(300, connect=10), trust_env=False) as client,
        show_progress(title, enabled=progress, done=f"{len(prompts)} requests answered") as bar,
    ):
        _generate(client, prompts[0], 8)
        for number, prompt in enumerate(prompts, start=1):
            bar.update("request", f"{number} of {len(prompts)}")
            answers.append(_generate(client, prompt, max_new_tokens))
    return Load(tuple(answers), max_new_tokens)


def _generate(client: httpx.Client, prompt: Prompt, max_new_tokens: int) -> Answer:
    body = {
        "input_ids": list(prompt.input_ids),
        "sampling_params": {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": True},
    }
    start = time.monotonic()
    try:
        response = client.post("/generate", json=body)
        response.raise_for_status()
        answer = response.json()
        output_ids, meta = tuple(answer["output_ids"]), answer["meta_info"]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        said = error.response.text[:300] if isinstance(error, httpx.HTTPStatusError) else str(error)
        raise RemoteFailed(
            "WB-LOAD-FAILED",
            f"request {prompt.id} of {len(prompt.input_ids)} tokens got no usable answer: "
            f"{type(error).__name__}: {said}",
            expected="an answer with output_ids and meta_info",
            next="workbook logs BOX RUN shows what the server said last",
        ) from error
    return Answer(prompt.id, output_ids, from_meta_info(meta), time.monotonic() - start)


def first_difference(load: Load, baseline: Load) -> tuple[str, int] | None:
    """The first request whose text differs from the baseline's, and at which new token; None when all are equal."""
    by_id = {a.id: a.output_ids for a in baseline.answers}
    for answer in load.answers:
        wanted = by_id[answer.id]
        if answer.output_ids != wanted:
            pairs = enumerate(zip(answer.output_ids, wanted, strict=False))
            cut = min(len(answer.output_ids), len(wanted))
            return answer.id, next((i for i, (got, want) in pairs if got != want), cut)
    return None
