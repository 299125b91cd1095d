"""The client of a load: so many requests in flight, each answer handed over as it ends.

The requests run in an event loop in a thread of its own, so that it works inside a notebook, whose own loop is
running; the caller's thread writes answers down meanwhile and takes the interrupts. A request that is given up is
closed, and the server stops working on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

from helpers.acceptance.load_records import Answer, Failure
from helpers.acceptance.load_settings import PATHS, LoadSettings, body_of
from helpers.acceptance.load_stream import Refused, Stream, stream_for
from helpers.acceptance.prompts import Prompt

WARMUP_TOKENS = 8
CONNECT_S = 10.0
#: Codes of failures after which no further request is worth sending.
GONE = frozenset({"WB-LOAD-NO-SERVER", "WB-LOAD-STALLED"})


@dataclass(frozen=True)
class Request:
    """One request to send: a prompt and the seed to sample it with. tokens: instead of the settings' own number."""

    prompt: Prompt
    seed: int = 0
    tokens: int | None = None


def answers(url: str, requests: Sequence[Request], settings: LoadSettings, *, model: str = "") -> Iterator[Answer]:
    """Send requests, ``settings.concurrency`` at a time and in order; yields each answer as it ends.

    After more than ``settings.max_failures`` failed requests, or one that says that the server is gone, nothing more is
    sent, and what is in flight is waited for. Leave the iterator early (`close`, an exception, Ctrl-C) and the
    requests in flight are given up.

    Args:
        url: the server's base address, such as ``http://127.0.0.1:31000`` (a tunnel's).
        model: the served name, for the OpenAI endpoints.

    Yields:
        Answers in the order in which they end; a failed one has ``failure``, and what had come until then.
    """
    done: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_send_all(url, requests, settings, model, done))

    def work() -> None:
        try:
            loop.run_until_complete(asyncio.wait({task}))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            done.put(None)

    thread = threading.Thread(target=work, name="load", daemon=True)
    thread.start()
    try:
        while (answer := done.get()) is not None:
            yield answer
        task.result()
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and all was sent
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


async def _send_all(
    url: str,
    requests: Sequence[Request],
    settings: LoadSettings,
    model: str,
    done: queue.SimpleQueue[Answer | None],
) -> None:
    waiting = iter(requests)
    failures, gone = 0, False
    timeout = httpx.Timeout(settings.stall_s, connect=CONNECT_S)
    limits = httpx.Limits(max_connections=settings.concurrency)

    async def worker() -> None:
        nonlocal failures, gone
        while not gone and failures <= settings.max_failures:
            request = next(waiting, None)
            if request is None:
                return
            answer = await _ask(client, request, settings, model)
            if answer.failure is not None:
                failures += 1
                gone = gone or answer.failure.code in GONE
            done.put(answer)

    async with (
        httpx.AsyncClient(base_url=url, timeout=timeout, limits=limits, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(min(settings.concurrency, len(requests))):
            group.create_task(worker())


async def _ask(client: httpx.AsyncClient, request: Request, settings: LoadSettings, model: str) -> Answer:
    body = body_of(request.prompt, request.seed, settings, model=model, tokens=request.tokens)
    stream = stream_for(settings.endpoint)
    started, clock = time.time(), time.monotonic()
    failure = await _follow(client, PATHS[settings.endpoint], body, stream, clock, settings.stall_s)
    seconds = time.monotonic() - clock
    with contextlib.suppress(Refused):  # a cut stream's last chunk; the failure is known already
        stream.close()
    return Answer(
        id=request.prompt.id,
        output_ids=tuple(stream.output_ids),
        counters=None,
        seconds=seconds,
        seed=request.seed,
        text=stream.text,
        completion_tokens=stream.tokens,
        prompt_tokens=stream.prompt_tokens,
        started=started,
        arrivals=tuple(stream.arrivals),
        finish=stream.finish,
        meta=stream.meta,
        failure=None if failure is None else _told(failure, request, stream),
    )


async def _follow(
    client: httpx.AsyncClient, path: str, body: object, stream: Stream, clock: float, stall_s: float
) -> tuple[str, str] | None:
    """Read the stream to its end; (code, what happened) where it does not come to one."""
    try:
        async with client.stream("POST", path, json=body) as response:
            if response.is_error:
                said = (await response.aread()).decode("utf-8", "replace").strip()
                return "WB-LOAD-FAILED", f"HTTP {response.status_code}: {said[:300] or response.reason_phrase}"
            moved = time.monotonic()
            async for line in response.aiter_lines():
                now = time.monotonic()
                if stream.feed(line, now - clock):
                    moved = now
                elif now - moved > stall_s:  # kept alive by comments, and nothing comes
                    return "WB-LOAD-STALLED", f"nothing new came for {stall_s:g} s"
        return None if stream.complete else ("WB-LOAD-CUT", "the stream ended before the request had")
    except Refused as refused:
        return "WB-LOAD-FAILED", str(refused)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        return "WB-LOAD-NO-SERVER", f"no connection: {error or type(error).__name__}"
    except httpx.TimeoutException:
        return "WB-LOAD-STALLED", f"nothing came for {stall_s:g} s"
    except httpx.HTTPError as error:
        if stream.complete:  # all was told; only the farewell is missing
            return None
        return "WB-LOAD-CUT", f"the connection ended: {error or type(error).__name__}"


_EXPECTED = {
    "WB-LOAD-FAILED": "an answer that the server takes to its end",
    "WB-LOAD-STALLED": "new tokens all along",
    "WB-LOAD-CUT": "a stream that ends with its request",
    "WB-LOAD-NO-SERVER": "a server that listens",
}


def _told(failure: tuple[str, str], request: Request, stream: Stream) -> Failure:
    code, what = failure
    size = f" of {len(request.prompt.input_ids)} tokens" if request.prompt.input_ids else ""
    return Failure(
        code=code,
        message=f"request {request.prompt.id}{size} failed after {stream.tokens} new tokens: {what}",
        expected=_EXPECTED[code],
        next="workbook logs BOX RUN shows what the server said last",
    )


def served_model(url: str) -> str:
    """The name that the OpenAI endpoints want, as the server itself tells it; empty where it tells none."""
    try:
        listed = httpx.get(f"{url}/v1/models", timeout=30, trust_env=False).raise_for_status().json()
        return str(listed["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return ""
