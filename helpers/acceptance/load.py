"""One load of one server, held in memory: what notebooks and tests call. `bench` keeps its answers on disk."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.acceptance.load_client import WARMUP_TOKENS, Request, answers, served_model
from helpers.acceptance.load_records import Answer as Answer
from helpers.acceptance.load_records import Failure as Failure
from helpers.acceptance.load_records import Load as Load
from helpers.acceptance.load_records import counted
from helpers.acceptance.load_records import first_difference as first_difference
from helpers.acceptance.load_settings import LoadSettings, check_kinds
from helpers.acceptance.prompts import Prompt
from helpers.errors import RemoteFailed
from helpers.progress import progress as show_progress
from helpers.serving.model import check_tokens


def run_load(
    url: str,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int = 64,
    title: str = "load",
    progress: bool = True,
    settings: LoadSettings | None = None,
    vocab_size: int | None = None,
) -> Load:
    """Greedy continuation of every prompt, `max_new_tokens` each, end-of-text ignored so that lengths are equal.

    One at a time, for good reason: with a batch the arithmetic's order changes with who shares it, and greedy texts of
    two configurations could then differ for a reason that is not the drafter's. One short request before the first is
    thrown away: the first decode after a start is slower than the rest.

    Args:
        url: the server's base address, such as ``http://127.0.0.1:31000`` (a tunnel's).
        settings: other sampling, endpoint or concurrency; then ``max_new_tokens`` is theirs.
        vocab_size: of the served model (`helpers.serving.model.model_facts`); prompts are held against it first.

    Raises:
        RemoteFailed: ``WB-LOAD-...`` with the request's id, at the first request that fails.
        UsageError: ``WB-PROMPTS-VOCABULARY``, ``WB-LOAD-SETTINGS``; nothing was sent.
    """
    settings = settings or LoadSettings(max_new_tokens=max_new_tokens)
    check_kinds(prompts, settings)
    if vocab_size is not None:
        check_tokens(prompts, vocab_size, "the served model")
    model = "" if settings.endpoint == "generate" else served_model(url)
    requests = [Request(prompt, seed) for seed in settings.seeds for prompt in prompts]
    kept: list[Answer] = []
    with show_progress(title, enabled=progress, done=f"{len(requests)} requests answered") as bar:
        for answer in answers(url, warmups(prompts, settings), settings, model=model):
            raise_failed(answer)
        for number, answer in enumerate(answers(url, requests, settings, model=model), start=1):
            bar.update("request", f"{number} of {len(requests)}")
            raise_failed(answer)
            kept.append(counted(answer))
    order = {(request.prompt.id, request.seed): place for place, request in enumerate(requests)}
    kept.sort(key=lambda answer: order[answer.id, answer.seed])
    return Load(tuple(kept), settings.max_new_tokens, settings.concurrency, len(requests), settings=settings)


def warmups(prompts: Sequence[Prompt], settings: LoadSettings) -> list[Request]:
    """Short requests that nobody counts: as many as asked for, at least one each for those kept in flight."""
    size = min(WARMUP_TOKENS, settings.max_new_tokens)
    many = settings.warmup and max(settings.warmup, settings.concurrency)
    return [Request(prompts[number % len(prompts)], settings.seeds[0], tokens=size) for number in range(many)]


def raise_failed(answer: Answer) -> None:
    """A failed answer as an error.

    Raises:
        RemoteFailed: its failure.
    """
    if answer.failure is not None:
        raise RemoteFailed(
            answer.failure.code,
            answer.failure.message,
            expected=answer.failure.expected,
            next=answer.failure.next,
            lines=list(answer.failure.lines),
        )
