"""The HTTP side of a capture: prompts out, token ids back, and what the server says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import httpx

from helpers.errors import RemoteFailed
from helpers.progress import Progress


class Prompt(Protocol):
    """What a capture needs of a prompt: a name of its own, and token ids."""

    @property
    def id(self) -> str: ...
    @property
    def input_ids(self) -> Sequence[int]: ...


def ask_all(
    client: httpx.Client,
    prompts: Sequence[Prompt],
    capture: str,
    max_new_tokens: int,
    concurrency: int,
    flush: bool,
    bar: Progress,
    natural_end: bool = False,
) -> list[dict[str, Any]]:
    """All requests, so many at a time; the first that fails ends it. ``natural_end``: as in `ask`."""
    if flush:  # rows that the prefix cache spares would never pass the hook
        post(client, "/flush_cache", "the prefix cache was not flushed")
    if concurrency == 1:
        answers = []
        for number, prompt in enumerate(prompts, start=1):
            bar.update("request", f"{number} of {len(prompts)}")
            if flush and number > 1:
                post(client, "/flush_cache", "the prefix cache was not flushed")
            answers.append(ask(client, prompt, capture, max_new_tokens, natural_end))
        return answers
    bar.update("requests", f"{len(prompts)}, {concurrency} at a time")
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(lambda prompt: ask(client, prompt, capture, max_new_tokens, natural_end), prompts))


def post(client: httpx.Client, path: str, failure: str, body: dict[str, Any] | None = None) -> httpx.Response:
    try:
        return client.post(path, json=body).raise_for_status()
    except httpx.HTTPError as error:
        raise refused(failure, error) from error


def get(client: httpx.Client, path: str) -> dict[str, Any]:
    try:
        answer = client.get(path).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise refused(f"{path} was not answered", error) from error
    if not isinstance(answer, dict):
        raise refused(f"{path} was answered with {type(answer).__name__}")
    return answer


def ask(
    client: httpx.Client, prompt: Prompt, capture: str, max_new_tokens: int, natural_end: bool = False
) -> dict[str, Any]:
    """One greedy request: its ids and those that came back. ``natural_end``: it may end before, at end-of-text."""
    sampling = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": not natural_end}
    body = {
        "rid": f"{capture}-{prompt.id}",
        "input_ids": list(prompt.input_ids),
        "sampling_params": sampling,
    }
    failure = f"request {prompt.id} of {len(prompt.input_ids)} tokens got no usable answer"
    answer = post(client, "/generate", failure, body)
    try:
        output_ids = [int(token) for token in answer.json()["output_ids"]]
    except (ValueError, KeyError, TypeError) as error:
        raise refused(failure, error) from error
    return {"id": prompt.id, "prompt_ids": list(prompt.input_ids), "output_ids": output_ids}


def refused(what: str, error: Exception | None = None) -> RemoteFailed:
    said = error.response.text[:300] if isinstance(error, httpx.HTTPStatusError) else str(error or "")
    return RemoteFailed(
        "WB-CAPTURE-REQUEST",
        f"{what}: {said or type(error).__name__}",
        expected="an answer of SGLang's HTTP API",
        next="workbook logs BOX RUN shows what the server said last",
    )
