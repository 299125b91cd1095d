"""Answers of remote/near_data.py without a connection: the same functions, the same bytes, counted the same way."""

from __future__ import annotations

import json
from typing import Any

from remote import near_data, sketches


class Beside:
    """What `helpers.box.near.NearData` is, for files on this machine."""

    def __init__(self) -> None:
        self.sent = self.received = 0

    def ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(request)
        answer = json.dumps(near_data.OPERATIONS[operation](json.loads(text)))
        self.sent += len(text)
        self.received += len(answer)
        found: dict[str, Any] = json.loads(answer)
        return found

    def stream(self, operation: str, request: dict[str, Any]) -> bytes:
        text = json.dumps(request)
        run = {"scan": sketches.scan, "take": sketches.take}[operation]
        answer = b"".join(sketches.packed(run(json.loads(text), near_data)))
        self.sent += len(text)
        self.received += len(answer)
        return answer
