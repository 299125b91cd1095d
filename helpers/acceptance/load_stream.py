"""An answer's stream, chunk by chunk: server-sent events of /generate and of the OpenAI endpoints. Pure.

What the chunks look like was seen on SGLang 0.5.9. ``/generate``: every chunk repeats all of ``text`` and
``output_ids`` so far (with ``--stream-output`` only what is new), ``meta_info.completion_tokens`` says how many there
are, and only the last chunk's ``meta_info`` has the speculation counters. A refusal comes as a chunk with ``error``,
under status 200. The OpenAI endpoints send new text only, token counts in ``usage``, and no counters.
"""

from __future__ import annotations

import json
import re
from typing import Any

from helpers.acceptance.load_settings import Endpoint

#: Never inside a JSON string, where the quotes would be escaped.
_COUNT = re.compile(r'"completion_tokens":\s*(\d+)')
#: The same: only the chunk that ends a request has a reason that is an object.
_GOES_ON = re.compile(r'"finish_reason":\s*null')


class Refused(Exception):
    """The stream says that the request failed, or says nothing that can be understood."""


class Stream:
    """One answer as it comes. Feed it the lines in order; read the attributes at any time, `close` at the end.

    Attributes:
        arrivals: (seconds, new tokens so far) of each chunk that brought any.
        complete: the end of the request was seen.
    """

    def __init__(self) -> None:
        self.output_ids: list[int] = []
        self.text = ""
        self.tokens = 0
        self.prompt_tokens: int | None = None
        self.finish: str | None = None
        self.meta: dict[str, Any] = {}
        self.arrivals: list[tuple[float, int]] = []
        self.complete = False

    def feed(self, line: str, at: float) -> bool:
        """Take one line that came ``at`` seconds after sending; whether it brought anything.

        Raises:
            Refused: with the server's own words.
        """
        if not line.startswith("data:"):
            return False
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self._done()
        else:
            self._chunk(data, at)
        return True

    def close(self) -> None:
        """No more lines will come."""

    def _chunk(self, data: str, at: float) -> None:
        raise NotImplementedError

    def _done(self) -> None:
        """The stream's own end was read."""

    def _arrived(self, at: float, tokens: int) -> None:
        if tokens > self.tokens:
            self.tokens = tokens
            self.arrivals.append((at, tokens))


class Generate(Stream):
    """SGLang's /generate. Chunks that repeat all so far are only counted as they come, and the last one is read."""

    def __init__(self) -> None:
        super().__init__()
        self._repeats: bool | None = None
        self._latest = ""

    def _chunk(self, data: str, at: float) -> None:
        count = _COUNT.search(data)
        if self._repeats and count is not None and _GOES_ON.search(data):
            self._latest = data
            self._arrived(at, int(count.group(1)))
            return
        self._latest = ""
        self._read(_object(data))
        self._arrived(at, int(self.meta.get("completion_tokens", len(self.output_ids))))

    def close(self) -> None:
        if self._latest:  # cut short: the last chunk is what there is
            self._read(_object(self._latest))

    def _read(self, chunk: dict[str, Any]) -> None:
        try:
            ids, meta = [int(token) for token in chunk.get("output_ids", ())], dict(chunk["meta_info"])
            text = str(chunk.get("text", ""))
            total = int(meta.get("completion_tokens", len(ids)))
            reason = meta.get("finish_reason")
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"a chunk without what /generate sends ({error}): {json.dumps(chunk)[:200]}") from error
        if self._repeats is None and self.output_ids and ids:
            self._repeats = len(ids) == total
        if self._repeats is False:
            ids, text = [*self.output_ids, *ids], self.text + text
        if ids and len(ids) != total:
            raise Refused(f"{len(ids)} token ids where completion_tokens is {total}")
        self.output_ids, self.text, self.meta = ids, text, meta
        self.prompt_tokens = meta.get("prompt_tokens")
        if reason is not None:
            self.finish = str(reason.get("type", reason)) if isinstance(reason, dict) else str(reason)
            if self.finish == "abort":
                raise Refused(str(reason.get("message", "the server aborted it")))
            self.complete = True


class OpenAI(Stream):
    """The OpenAI endpoints, completions and chat. Without counts in its chunks (``usage``) a chunk counts as one token
    until the end tells how many there were.
    """

    def _chunk(self, data: str, at: float) -> None:
        chunk = _object(data)
        usage = chunk.get("usage") or {}
        try:
            for choice in chunk["choices"]:
                delta = choice.get("delta") or {}
                piece = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
                self.text += piece
                if piece:
                    self._arrived(at, int(usage.get("completion_tokens") or self.tokens + 1))
                if choice.get("finish_reason") is not None:
                    self.finish = str(choice["finish_reason"])
        except (KeyError, TypeError, AttributeError) as error:
            raise Refused(f"a chunk without choices: {data[:200]}") from error
        if usage:
            self.meta = {**self.meta, "id": chunk.get("id"), "usage": usage}
            self.prompt_tokens = usage.get("prompt_tokens")
            self.tokens = int(usage.get("completion_tokens") or self.tokens)

    def _done(self) -> None:
        self.complete = self.finish is not None  # the count of tokens comes after the reason


def stream_for(endpoint: Endpoint) -> Stream:
    return Generate() if endpoint == "generate" else OpenAI()


def _object(data: str) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except ValueError as error:
        raise Refused(f"a chunk that is no JSON: {data[:200]!r}") from error
    if not isinstance(chunk, dict):
        raise Refused(f"a chunk that is no JSON object: {data[:200]!r}")
    if "error" in chunk:
        said = chunk["error"]
        raise Refused(str(said.get("message", said) if isinstance(said, dict) else said))
    return chunk
