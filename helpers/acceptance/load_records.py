"""What a load keeps: each request as it was answered, and all answers of one server together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.counters import RequestCounters, from_meta_info
from helpers.acceptance.load_settings import LoadSettings


class Failure(BaseModel):
    """Why a request, a load or a point did not come to its end: an error of helpers/errors.py as a record.

    Attributes:
        lines: of the server's log, where it tells the cause.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    message: str
    expected: str = ""
    next: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """One request as it was answered, or as far as it came.

    Attributes:
        id: the prompt's.
        output_ids: the new tokens, without the prompt; empty where the endpoint tells only text.
        counters: None when the server does not speculate, or the endpoint tells no counters.
        seconds: wall clock of the request, from sending it to the end of its stream, over the tunnel.
        seed: what it was sampled with; 0 for greedy.
        text: the new text, as the server detokenized it.
        completion_tokens: new tokens as the server counts them; None: as many as ``output_ids``.
        started: when it was sent, in seconds of this machine's clock since the epoch.
        arrivals: (seconds since sending, new tokens so far) of every chunk of the stream.
        finish: why it ended: ``length``, ``stop``, ...; None while it has not.
        meta: the last chunk's ``meta_info`` (or ``usage``), whole.
        failure: why it did not come to its end.
    """

    id: str
    output_ids: tuple[int, ...]
    counters: RequestCounters | None
    seconds: float
    seed: int = 0
    text: str = ""
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    started: float | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    finish: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def tokens(self) -> int:
        """How many new tokens came."""
        return len(self.output_ids) if self.completion_tokens is None else self.completion_tokens

    @property
    def first_token_s(self) -> float | None:
        """Seconds from sending to the first new token; None where the answer was not streamed."""
        return self.arrivals[0][0] if self.arrivals else None

    @property
    def inter_token_s(self) -> tuple[float, ...]:
        """Seconds between new tokens. Tokens of one chunk came together: its gap is spread evenly over them.

        >>> Answer("p", (), None, 1.0, arrivals=((0.5, 1), (0.75, 3))).inter_token_s
        (0.125, 0.125)
        """
        gaps: list[float] = []
        for (before, had), (at, have) in zip(self.arrivals, self.arrivals[1:], strict=False):
            gaps += [(at - before) / (have - had)] * (have - had)
        return tuple(gaps)

    @property
    def decode_s(self) -> float:
        """Seconds from the first chunk to the last: what its verify (or decode) steps took together."""
        return self.arrivals[-1][0] - self.arrivals[0][0] if self.arrivals else 0.0

    @property
    def decode_steps(self) -> int:
        """Forward passes of the target after the prefill: verify steps, or a token each without speculation."""
        return self.counters.verify_steps if self.counters is not None else max(0, self.tokens - 1)


@dataclass(frozen=True)
class Load:
    """All answers of one server to one prompt file.

    Attributes:
        answers: those that came to their end.
        max_new_tokens: asked for per request.
        concurrency: requests that were kept in flight.
        asked: how many answers there were to be; None: as many as there are.
        failure: why there are fewer.
        settings: how it was asked, where that is known; what a command that asks again takes.
    """

    answers: tuple[Answer, ...]
    max_new_tokens: int
    concurrency: int = 1
    asked: int | None = None
    failure: Failure | None = None
    settings: LoadSettings | None = None

    @property
    def partial(self) -> bool:
        """Whether answers are missing."""
        return self.failure is not None or (self.asked is not None and len(self.answers) < self.asked)

    @property
    def request_s(self) -> float:
        """Request seconds, added up."""
        return sum(a.seconds for a in self.answers)

    @property
    def busy_s(self) -> float:
        """Seconds in which at least one request was in flight; with one at a time these are the request seconds."""
        spans = sorted((a.started, a.started + a.seconds) for a in self.answers if a.started is not None)
        if len(spans) < len(self.answers):
            return self.request_s
        busy, until = 0.0, float("-inf")
        for start, end in spans:
            busy += max(0.0, end - max(start, until))
            until = max(until, end)
        return busy

    @property
    def running(self) -> float:
        """Requests in flight, as a mean over the busy seconds."""
        return self.request_s / self.busy_s if self.answers else 0.0

    @property
    def tokens_per_s(self) -> float:
        """New tokens per second in which requests were in flight (prefill included)."""
        return sum(a.tokens for a in self.answers) / self.busy_s

    @property
    def counters(self) -> list[RequestCounters]:
        return [a.counters for a in self.answers if a.counters is not None]


def counted(answer: Answer) -> Answer:
    """The answer with its counters read from ``meta``.

    Raises:
        WrongResult, UsageError: as `from_meta_info`; the answer itself stays as it is.
    """
    return answer if answer.counters is not None else replace(answer, counters=from_meta_info(answer.meta))


def to_row(answer: Answer) -> dict[str, Any]:
    """The answer as a line of requests.jsonl; times are rounded to microseconds."""
    row: dict[str, Any] = {
        "prompt": answer.id,
        "seed": answer.seed,
        "ok": answer.ok,
        "started": None if answer.started is None else round(answer.started, 6),
        "seconds": round(answer.seconds, 6),
        "first_token_s": None if answer.first_token_s is None else round(answer.first_token_s, 6),
        "prompt_tokens": answer.prompt_tokens,
        "tokens": answer.tokens,
        "finish": answer.finish,
        "arrivals": [[round(at, 6), have] for at, have in answer.arrivals],
        "output_ids": list(answer.output_ids),
        "text": answer.text,
        "meta_info": dict(answer.meta),
    }
    return row if answer.failure is None else {**row, "failure": answer.failure.model_dump(mode="json")}


def from_row(row: Mapping[str, Any]) -> Answer:
    """The answer of a line of requests.jsonl, its counters not yet read (`counted` does)."""
    return Answer(
        id=row["prompt"],
        output_ids=tuple(row["output_ids"]),
        counters=None,
        seconds=row["seconds"],
        seed=row["seed"],
        text=row["text"],
        completion_tokens=row["tokens"],
        prompt_tokens=row["prompt_tokens"],
        started=row["started"],
        arrivals=tuple((at, have) for at, have in row["arrivals"]),
        finish=row["finish"],
        meta=row["meta_info"],
        failure=None if row["ok"] else Failure.model_validate(row["failure"]),
    )


def first_difference(load: Load, baseline: Load) -> tuple[str, int] | None:
    """The first request whose text differs from the baseline's, and where; None when all are equal.

    Where is the place of the new token, or of the character for an endpoint that tells only text. Requests that the
    baseline has no answer to are left out.
    """
    by_key = {(a.id, a.seed): a for a in reversed(baseline.answers)}
    for answer in load.answers:
        wanted = by_key.get((answer.id, answer.seed))
        if wanted is None:
            continue
        told = bool(answer.output_ids) and bool(wanted.output_ids)
        at = divergence(answer.output_ids, wanted.output_ids) if told else divergence(answer.text, wanted.text)
        if at is not None:
            return answer.id, at
    return None


def divergence(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Where two sequences first differ; None when they are equal.

    >>> divergence("abc", "abd"), divergence((1, 2), (1, 2)), divergence((1,), (1, 2))
    (2, None, 1)
    """
    for at, (got, want) in enumerate(zip(one, other, strict=False)):
        if got != want:
            return at
    return None if len(one) == len(other) else min(len(one), len(other))
