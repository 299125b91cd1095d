"""Progress for anything that takes over two seconds: a live line on a terminal, plain lines in a log or a notebook.

On a terminal it goes to stderr, so that stdout stays the result. In a notebook it goes to stdout: there is no pipe to
keep clean, and front ends paint stderr as if it were an error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TextIO


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    return "ipykernel" in sys.modules and hasattr(sys.stdout, "set_parent")


class Progress:
    """One task's progress: its title, a changing detail, and the seconds it took.

    On a terminal the line is redrawn in place; elsewhere a line is written when the stage changes, and at most every
    ten seconds while only the detail changes.
    """

    def __init__(self, title: str, *, enabled: bool = True) -> None:
        self.title = title
        self.enabled = enabled
        self._start = time.monotonic()
        self._stage = ""
        self._last = 0.0
        self._stream: TextIO = sys.stdout if in_notebook() else sys.stderr
        self._terminal = self._stream.isatty()

    @property
    def shown(self) -> bool:
        """Whether a stage was shown."""
        return bool(self._stage)

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
        self._write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")

    def done(self, outcome: str) -> None:
        if not self.enabled:
            return
        text = f"{self.title}: {outcome} ({self.seconds():.0f} s)"
        self._write(f"\r\x1b[2K{text}\n" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


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


@contextmanager
def slow(title: str, stage: str, *, after: float = 2.0) -> Iterator[None]:
    """A task that is usually over at once: words only where it takes longer than ``after`` seconds.

    >>> with slow("comparison", "compiling"):
    ...     pass
    """
    task = Progress(title)
    timer = Timer(after, task.update, (stage,))
    timer.daemon = True
    timer.start()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        timer.cancel()
        timer.join()
        if task.shown:
            task.done(outcome)


def show_command(text: str) -> None:
    """Shows the command that is about to run: as it is on a terminal, folded up in a notebook (it is twenty lines)."""
    if not in_notebook():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        return
    from html import escape

    from IPython.display import HTML, display

    folded = f"<details><summary>the command, as it runs on the box</summary><pre>{escape(text)}</pre></details>"
    display(HTML(folded))  # type: ignore[no-untyped-call]
