"""SGLang's ``Decode batch`` lines: one an interval of decode batches, with the interval's means.

Read in the format strings of 0.5.9 (managers/scheduler_metrics_mixin.py) and 0.5.23 (scheduler_components/
metrics_reporter.py), and in public logs of earlier versions: ``Decode batch.`` or ``Decode batch,``, a forward number
in brackets, a comma at the end or none, ``DP0 TP0`` after the time or nothing, plain or ISO time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STAMP = re.compile(r"\[([^\[\]]*)\]\s*$")
_RANKS = re.compile(r"\b(?:DP|PP|TP|EP|ATTN_CP|MOE_DP|CP)\d+\b")
_SERVICE = re.compile(r"^\s*([\w.-]+)\s*\|\s")  # docker compose puts the service's name in front
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RUNNING = re.compile(r"#running-req:\s*(\d+)\b,")
# A comma must follow: a figure at the end of a cut line may have lost digits. "block accept len" is another thing.
_LENGTH = re.compile(r"(?<!block )accept len:\s*(\d+\.\d+),")
_RATE = re.compile(r"accept rate:\s*(\d+\.\d+),")
_THROUGHPUT = re.compile(r"gen throughput \(token/s\):\s*(\d+\.\d+)\b")
# What a start of a server prints, in its order.
_MARKS = (("server_args=", 0), ("max_total_num_tokens=", 1), ("Uvicorn running on", 2), ("The server is fired up", 2))
_SETTING = r"speculative[-_]{}['\"]?\s*[=:\s]\s*(\d+)\b"
# N changes while such a server runs.
_ADAPTIVE = re.compile(r"speculative[-_]adaptive['\"]?\s*[=:]\s*[Tt]rue")
_CONFIG = {
    "num_draft_tokens": re.compile(_SETTING.format("num[-_]draft[-_]tokens")),
    "topk": re.compile(_SETTING.format("eagle[-_]topk")),
    "num_steps": re.compile(_SETTING.format("num[-_]steps")),
}


@dataclass(frozen=True)
class DecodeLine:
    """One interval of one server.

    Attributes:
        server: what tells it from others in the same file, such as ``DP0 TP0``; empty where nothing does.
        time: as it was printed.
        running: requests in the batch at the interval's end.
        accept_length, accept_rate: as they were printed; None on a line without speculation.
        throughput: generated tokens per second.
        varying: verify windows were cut by confidence, so N - 1 drafts a step does not hold.
    """

    server: str
    time: str | None
    running: int
    accept_length: str | None
    accept_rate: str | None
    throughput: float | None
    varying: bool = False


@dataclass(frozen=True)
class Start:
    """A sign that a server starts: which one of the four, and what it tells of its speculation."""

    service: str
    rank: int
    config: dict[str, int]


def parse(text: str) -> list[DecodeLine | None]:
    """The decode lines in one line of text: none, one, or several that were torn into each other; None for a broken one.

    >>> parse("[2026-01-02 03:04:05 DP1 TP4] Decode batch, #running-req: 2, #token: 9, token usage: 0.00, "
    ...       "accept len: 2.35, accept rate: 0.59, cuda graph: True, gen throughput (token/s): 99.10, #queue-req: 0")
    [DecodeLine(server='DP1 TP4', time='2026-01-02 03:04:05', running=2, accept_length='2.35', accept_rate='0.59', throughput=99.1, varying=False)]
    """  # noqa: E501
    if "Decode batch" not in text:
        return []
    text = _COLOUR.sub("", text)
    head, *bodies = text.split("Decode batch")
    found: list[DecodeLine | None] = []
    for body in bodies:
        found.append(_line(head, body, service_of(text)))
        head = body
    return found


def start_in(text: str) -> Start | None:
    """The sign of a server's start that this line is, if it is one."""
    for mark, rank in _MARKS:
        if mark in text:
            config = {}
            for name, pattern in _CONFIG.items() if rank == 0 else ():
                met = pattern.search(text)
                if met:
                    config[name] = int(met[1])
            if rank == 0 and _ADAPTIVE.search(text):
                config["adaptive"] = 1
            return Start(service_of(text), rank, config)
    return None


def service_of(text: str) -> str:
    met = _SERVICE.match(text)
    return met[1] if met else ""


def _line(head: str, body: str, service: str) -> DecodeLine | None:
    stamp = _STAMP.search(head)
    inside = stamp[1] if stamp else ""
    ranks = " ".join(_RANKS.findall(inside))
    time = _RANKS.sub("", inside).strip() or None
    running, length, rate = _RUNNING.search(body), _LENGTH.search(body), _RATE.search(body)
    throughput = _THROUGHPUT.search(body)
    if running is None:
        return None
    if length is None and ("accept len" in body or throughput is None):
        return None
    if length is not None and rate is None and "accept rate" in body:
        return None
    return DecodeLine(
        server=" ".join(part for part in (service, ranks) if part),
        time=time,
        running=int(running[1]),
        accept_length=length[1] if length else None,
        accept_rate=rate[1] if rate else None,
        throughput=float(throughput[1]) if throughput else None,
        varying="cap len:" in body,
    )
