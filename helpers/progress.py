"""Progress on stderr for anything that takes over two seconds: a live line on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """One task's progress: its title, a changing detail, and the seconds it took.

    On a terminal the line is redrawn in place; elsewhere (a notebook, CI, a pipe) a line is written when the stage
    changes, and at most every ten seconds while only the detail changes.
    """

    def __init__(self, title: str, *, enabled: bool = True) -> None:
        self.title = title
        self.enabled = enabled
        self._start = time.monotonic()
        self._stage = ""
        self._last = 0.0
        self._terminal = sys.stderr.isatty()

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def update(self, stage: str, detail: str = "") -> None:
        """Shows `stage` (what is going on) and `detail` (how far)."""
        if not self.enabled:
            return
        now = time.monotonic()
        changed = stage != self._stage
        if not changed and now - self._last < (0.2 if self._terminal else 10.0):
            return
        self._stage, self._last = stage, now
        text = f"{self.title}: {stage}" + (f" {detail}" if detail else "") + f" ({self.seconds():.0f} s)"
        sys.stderr.write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()

    def done(self, outcome: str) -> None:
        if not self.enabled:
            return
        text = f"{self.title}: {outcome} ({self.seconds():.0f} s)"
        sys.stderr.write(f"\r\x1b[2K{text}\n" if self._terminal else f"{text}\n")
        sys.stderr.flush()


@contextmanager
def progress(title: str, *, enabled: bool = True, done: str = "done") -> Iterator[Progress]:
    """A task with progress; says `done`, or that it failed, when it ends.

    >>> with progress("bench right", enabled=False) as bar:
    ...     bar.update("request", "3 of 32")
    """
    task = Progress(title, enabled=enabled)
    try:
        yield task
    except BaseException as error:
        task.done("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    task.done(done)
