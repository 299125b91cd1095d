"""Work beside the kernel's main thread: one job at a time, which can be cancelled and never ends in a traceback.

>>> worker, sums = Worker(), []
>>> worker.start("adding", lambda token: 1 + 1, then=sums.append)
True
>>> worker.wait(), sums
(True, [2])
>>> worker.job.state
'done'
"""

from __future__ import annotations

import contextvars
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from helpers.errors import WorkbookError
from helpers.paths import error_page

T = TypeVar("T")
State = Literal["idle", "running", "cancelling", "done", "cancelled", "failed"]


class Cancelled(KeyboardInterrupt):
    """The work was cancelled from its panel. It unwinds like Ctrl-C, so that what the work had started is stopped."""


class Token:
    """What the work asks now and then whether it should go on."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Ends the work where it was cancelled."""
        if self.cancelled:
            raise Cancelled


@dataclass(frozen=True)
class Job:
    """What a worker does, or did last.

    Attributes:
        title: what the work is called. detail: how far it is.
        error: the coded text for the user, where it failed. trace: the stack of a fault of our own, for a report.
        seconds: how long it took, 0 while it runs.
    """

    title: str = ""
    state: State = "idle"
    detail: str = ""
    error: str = ""
    trace: str = ""
    seconds: float = 0.0

    @property
    def busy(self) -> bool:
        return self.state in ("running", "cancelling")


class Worker:
    """Runs one piece of work at a time in a thread of its own.

    Args:
        changed: called with each new `Job`, in the work's thread or in that of the caller.
    """

    def __init__(self, changed: Callable[[Job], None] | None = None) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._job = Job()
        self._token = Token()
        self._drop = False
        self._thread: threading.Thread | None = None

    @property
    def job(self) -> Job:
        return self._job

    @property
    def busy(self) -> bool:
        return self._job.busy

    @property
    def reading(self) -> bool:
        """At work that only reads."""
        return self.busy and self._drop

    def start(
        self,
        title: str,
        work: Callable[[Token], T],
        then: Callable[[T], None] | None = None,
        *,
        drop: bool = False,
    ) -> bool:
        """Begin the work; False, and nothing is begun, while other work is under way.

        Args:
            work: is given the token, and asks it where it can end well.
            then: is given the result, in the same thread.
            drop: the work only reads: cancelled, it is left to itself and its result is dropped.
        """
        with self._lock:
            if self._job.busy:
                return False
            token, self._drop = Token(), drop
            self._token, self._job = token, Job(title, "running")
        context = contextvars.copy_context()  # so that what it shows belongs to the cell or click that began it
        thread = threading.Thread(target=context.run, args=(self._run, token, work, then), daemon=True, name=title)
        self._thread = thread
        self._tell()
        thread.start()
        return True

    def detail(self, text: str, token: Token) -> None:
        """Say how far the work is; also a place where it ends when it was cancelled."""
        token.check()
        self._set(token, lambda job: replace(job, detail=text))

    def cancel(self) -> None:
        """End the work at the next place where it can end well; what only reads is dropped at once."""
        token = self._token
        if not self.busy:
            return
        token.cancel()
        self._set(token, lambda job: replace(job, state="cancelled" if self._drop else "cancelling"))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the work; False where it goes on after ``timeout`` seconds."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return not self.busy

    def _run(self, token: Token, work: Callable[[Token], T], then: Callable[[T], None] | None) -> None:
        began = time.monotonic()

        def ended(state: State, error: str = "", trace: str = "") -> None:
            took = time.monotonic() - began
            self._set(token, lambda job: replace(job, state=state, error=error, trace=trace, seconds=took))

        try:
            result = work(token)
            if self._token is token and not (token.cancelled and self._drop) and then is not None:
                then(result)
        except KeyboardInterrupt:
            ended("cancelled")
        except WorkbookError as error:
            ended("failed", f"{error}\n  page: {error_page(error.code)}")
        except Exception as error:  # noqa: BLE001 - a fault of our own: told in a line, the stack kept for a report
            ended("failed", f"{type(error).__name__}: {error}", traceback.format_exc())
        else:
            ended("done")

    def _set(self, token: Token, change: Callable[[Job], Job]) -> None:
        with self._lock:
            # Work that was dropped has no say any more.
            if self._token is not token or not self._job.busy:
                return
            self._job = change(self._job)
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed(self._job)
