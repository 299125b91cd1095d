"""A tiny HTTP server with the faults that a healthy SGLang cannot be made to show: 500, cut and silent streams.

It answers /generate in the form of SGLang 0.5.9's chunks, a token a chunk. It is no model and no stand-in for one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Faulty(ThreadingHTTPServer):
    """Attributes:
    faults: prompt's first token -> fault of its answer: ``500``, ``cut``, ``silent``, ``comments``, ``error``,
        ``garbage``, ``short``, ``refuse``. incremental: chunks hold only what is new.
    asked: bodies received. release: set it, and silent streams end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: dict[int, str] = {}
        self.incremental = False
        self.asked: list[dict[str, Any]] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left early is no error of the server's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        first = body["input_ids"][0]
        fault = self.server.faults.get(first, "")
        if fault == "500":
            self.send_error(500, "Internal Server Error", "the scheduler is not well")
            return
        if fault == "refuse":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in self._events(first, body["sampling_params"]["max_new_tokens"], fault):
            self._write(data)
        if fault in ("cut", "garbage"):
            self.close_connection = True
            return
        self._write("data: [DONE]\n\n") if fault != "short" else None
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, first: int, tokens: int, fault: str) -> Iterator[str]:
        for have in range(1, tokens + 1):
            if fault and have == 3:
                yield from self._fault(fault)
                return
            yield chunk(first, have, tokens, incremental=self.server.incremental)

    def _fault(self, fault: str) -> Iterator[str]:
        if fault == "error":
            yield 'data: {"error": {"message": "the request is too long"}}\n\n'
        if fault == "garbage":
            yield "data: {not json}\n\n"
        if fault == "silent":
            self.server.release.wait(30)
        while fault == "comments" and not self.server.release.wait(0.05):
            yield ": still here\n\n"

    def _write(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def chunk(first: int, have: int, tokens: int, *, incremental: bool = False) -> str:
    """One event of a stream: all so far, or only what is new; the counters with the last."""
    done = have == tokens
    ids = [first + 100 + place for place in range(have)]
    meta: dict[str, Any] = {"id": "r", "prompt_tokens": 3, "completion_tokens": have, "finish_reason": None}
    if done:
        steps = tokens - 1
        meta |= {"finish_reason": {"type": "length", "length": tokens}, "spec_verify_ct": steps}
        meta |= {"spec_accept_histogram": [steps], "spec_draft_token_num": 3 * steps, "spec_accept_token_num": 0}
    shown = ids[-1:] if incremental else ids
    text = "".join(f" {token}" for token in shown)
    return "data: " + json.dumps({"text": text, "output_ids": shown, "meta_info": meta}) + "\n\n"


@contextmanager
def faulty() -> Iterator[Faulty]:
    with Faulty() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.release.set()
            server.shutdown()
            thread.join()
