"""How far a transfer is: on stderr, and only for what takes more than a second."""

from __future__ import annotations

import time
from types import TracebackType

from helpers.progress import Progress

_QUIET = 1.0
"""Seconds before the first word: what is over by then needs no progress."""


def human(count: float) -> str:
    """Bytes for people: ``human(1 << 20)`` is ``1.0 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


class Meter:
    """Counts the bytes of one transfer. A context manager.

    Attributes:
        total: bytes in all. done: bytes that are where they belong. sent: of these, what travelled now.
        resumed: how often the link was lost and the transfer went on.
    """

    def __init__(self, title: str, total: int, *, enabled: bool) -> None:
        self.total = total
        self.done = self.sent = self.resumed = 0
        self._title, self._enabled = title, enabled
        self._started = self._next = time.monotonic()
        self._next += _QUIET
        self._line: Progress | None = None

    def sent_now(self, count: int) -> None:
        """``count`` more bytes have travelled."""
        self.sent += count
        self.kept(count)

    def kept(self, count: int) -> None:
        """``count`` more bytes are in place without having travelled."""
        self.done += count
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.25
            self._show(now)

    def rewind(self, done: int) -> None:
        """After a break: ``done`` bytes are in place, whatever had been sent."""
        self.done = done

    def note(self, text: str) -> None:
        """Something other than bytes that the user waits for, such as a lost connection."""
        self._update(text, "")

    def _show(self, now: float) -> None:
        speed = self.sent / max(1e-6, now - self._started)
        share = f"{100 * self.done / self.total:.0f}%" if self.total else ""
        left = f", {(self.total - self.done) / speed:.0f} s left" if speed > 0 else ""
        self._update(f"{human(self.total)}", f"{share} at {human(speed)}/s{left}")

    def _update(self, stage: str, detail: str) -> None:
        if self._enabled and self._line is None:
            self._line = Progress(self._title)
        if self._line is not None:
            self._line.update(stage, detail)

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.done("failed" if error is not None else f"{human(self.done)}, {human(self.sent)} of it sent")
