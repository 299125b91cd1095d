"""Watch a run: its log from a given byte on, whether it lives, whether it answers; one JSON object a line.

Events: ``{"event": "line", "text", "offset"}`` (offset: the byte after it, to go on from after a lost connection),
``beat`` (nothing new for a while; also how a watcher whose reader is gone finds out), ``ready``, ``dead``, ``end``, and
``foreign``: somebody else answers on the run's port, so that this server can never be ready.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote import ports, processes, runs

Event = dict[str, Any]
POLL, BEAT = 0.2, 2.0  # seconds
TAIL_BYTES = 1 << 20  # how far back the last lines are looked for
LAST_BYTES = 1 << 16  # of a log that is told among others
BLOCK, LONGEST = 1 << 20, 10_000  # bytes read at a time, characters of a line that are passed on
LINE = re.compile(rb"[^\r\n]*[\r\n]|[^\r\n]+$")  # a progress bar's \r ends a line as well


def watch(request: dict[str, Any]) -> Iterator[Event]:
    """Events until the server is ready (with ``health``), is dead, or the log's present end is reached (no ``follow``).

    A run of another machine with this home is never seen to end: its log is told, and with ``health`` it is refused.
    The request holds ``run``, ``offset``, ``tail`` (instead of an offset: so many last lines), ``follow``, ``health``.
    """
    record = runs.load(request["run"])
    away = runs.state(record) == "elsewhere"
    if away and request["health"]:
        raise runs.elsewhere_refused(record)
    log = runs.folder(record["id"]) / "server.log"
    offset = request["offset"] if request.get("tail") is None else tail(log, request["tail"])
    health = _Health(record) if request["health"] else None
    spoke = time.monotonic()
    while True:
        # Asked first: a dead server's log has all that it will ever have. Another machine's may go on for ever.
        alive = away or runs.leader(record) is not None
        ready = health is not None and health.good
        more = True
        while more:
            lines, offset, more = read(log, offset, last=not alive)
            yield from lines
            if lines:
                spoke = time.monotonic()
        if ready:
            yield {"event": "ready"}
            return
        if alive and health is not None and health.foreign:
            holder = ports.holder(record["port"])
            yield {"event": "foreign", "holder": holder.as_dict() if holder else None}
            return
        if not alive:
            yield {"event": "dead", "orphans": [p.as_dict() for p in left(record)]}
            return
        if not request["follow"]:
            yield {"event": "end"}
            return
        if time.monotonic() - spoke > BEAT:
            spoke = time.monotonic()
            yield {"event": "beat"}
        time.sleep(POLL)


def read(log: Path, offset: int, *, last: bool) -> tuple[list[Event], int, bool]:
    """A block of whole lines from ``offset`` on as events, the offset after them, and whether there is more to read.

    With ``last`` a line without an end counts as well, and so does one that fills a whole block.
    """
    with open(log, "rb") as file:
        file.seek(offset)
        block = file.read(BLOCK)
    more = len(block) == BLOCK
    whole = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
    if (last and not more) or (more and not whole):
        whole = len(block)
    events = []
    for found in LINE.finditer(block[:whole]):
        if text := found.group().rstrip(b"\r\n"):
            events.append(_line(text, offset + found.end()))
    return events, offset + whole, more


def tail(log: Path, count: int) -> int:
    """The byte at which the last ``count`` lines begin."""
    with open(log, "rb") as file:
        size = file.seek(0, 2)
        base = max(0, size - TAIL_BYTES)
        file.seek(base)
        starts = [base, *(base + found.end() for found in re.finditer(rb"\n", file.read()))]
    starts = [at for at in starts if at < size]
    return starts[-count] if 0 < count <= len(starts) else (starts[0] if count and starts else size)


def last(run: str, count: int) -> list[str]:
    """The log's last lines, none where there is no log."""
    log = runs.folder(run) / "server.log"
    try:
        events, _, _ = read(log, max(tail(log, count), log.stat().st_size - LAST_BYTES), last=True)
    except OSError:
        return []
    return [event["text"] for event in events]


def left(record: runs.Record) -> list[processes.Process]:
    """What carries the run's mark and lives, but for its leader."""
    among = processes.running()
    return [p for p in processes.marked(record["id"], among) if p.pid != record["pid"]]


def _line(text: bytes, offset: int) -> Event:
    shown = text.decode("utf-8", "replace")
    return {"event": "line", "text": shown if len(shown) <= LONGEST else shown[:LONGEST] + " ...", "offset": offset}


class _Health:
    """Asks /health in a thread of its own: SGLang's answer can take 20 s, and a death must be seen at once."""

    def __init__(self, record: runs.Record) -> None:
        self.good = False
        self.foreign = False
        self._run, self._port = record["id"], record["port"]
        host = ports.reachable(record["host"])
        host = f"[{host}]" if ":" in host else host
        self._url = f"http://{host}:{self._port}/health"
        self._address = (record["host"], self._port)
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        # No proxy: a box's http_proxy is not meant for its own loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self.good and not self.foreign:
            if ports.answers(*self._address):
                if ports.foreign(self._port, self._run):
                    self.foreign = True
                    return
                try:
                    with opener.open(self._url, timeout=30) as reply:
                        self.good = reply.status == 200
                except (OSError, ValueError, urllib.error.HTTPError):
                    pass
            time.sleep(0.5)


def dump(event: Event) -> str:
    """One line of the answer."""
    return json.dumps(event, ensure_ascii=True)
