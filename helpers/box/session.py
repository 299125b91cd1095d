"""The box's connection as the rest sees it: always one live link, a bounded number of channels, all under one lock."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import paramiko

from helpers.box.link import Link
from helpers.box.patience import patience
from helpers.box.targets import Target
from helpers.box.transient import Transient, by_hand
from helpers.errors import RemoteFailed

T = TypeVar("T")
MAX_CHANNELS = 8
"""Commands at a time over one connection. OpenSSH allows 10 sessions (MaxSessions); two are kept for ending others."""

_BACKOFF = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


class Session:
    """Keeps one `Link` to ``target``, and makes a new one when the old is found dead.

    One lock guards the link and the count of channels. It is held while connecting, so that many threads that find
    the link dead make one new connection between them.

    Attributes:
        timeout: seconds for a connection, and for the answer to a request on one.
        shell_seconds: how long the login shell took for the first command, known once it has answered.
    """

    def __init__(self, target: Target, timeout: float | None = None) -> None:
        self.target = target
        self.timeout = patience(target, timeout).whole
        self.shell_seconds = 0.0
        self._given = timeout
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)
        self._link: Link | None = None
        self._closed = False
        self._in_use = 0
        self._limit = MAX_CHANNELS
        self.connections = 0

    def link(self) -> Link:
        """The live link, connecting where there is none.

        Raises:
            BoxUnreachable: no connection can be made.
        """
        with self._lock:
            if self._closed:
                raise Transient(
                    "WB-SSH-CLOSED",
                    f"the connection to {self.target.name} was closed by this program",
                    expected="an open box",
                    next=f"box = helpers.connect({self.target.name!r})",
                )
            if self._link is not None and self._link.alive:
                return self._link
            if self._link is not None:
                self._link.close()
                self._link = None
            self._link = Link.open(self.target, self._given)
            self.connections += 1
            return self._link

    @contextlib.contextmanager
    def channel(self, *, window: int | None = None, wait: float | None = None) -> Iterator[paramiko.Channel]:
        """A session channel, closed at the end. Waits while as many are open as the box allows.

        Args:
            window: bytes that may be on their way unread; paramiko's default of 2 MiB is the fastest.
            wait: seconds to wait for a free channel; for ever by default.

        Raises:
            RemoteFailed: WB-SSH-BUSY after ``wait``; WB-SSH-CHANNEL where the box allows no session at all.
            Transient: the link broke.
        """
        channel = self._open(window, wait)
        try:
            yield channel
        finally:
            channel.close()
            with self._lock:
                self._in_use -= 1
                self._freed.notify()

    def _open(self, window: int | None, wait: float | None) -> paramiko.Channel:
        until = None if wait is None else time.monotonic() + wait
        with self._lock:
            while True:
                while self._in_use >= self._limit:
                    if until is not None and time.monotonic() > until:
                        raise self._busy(wait)
                    self._freed.wait(0.5)
                link = self.link()
                try:
                    channel = link.transport.open_session(window_size=window, timeout=self.timeout)
                except paramiko.ChannelException as error:
                    if self._in_use == 0:
                        raise self._refused(error) from error
                    # The box allows fewer sessions than thought: take that as the bound and wait for one to end.
                    self._limit = self._in_use
                    continue
                except (paramiko.SSHException, EOFError, OSError) as error:
                    raise link.lost() from error
                self._in_use += 1
                return channel

    @contextlib.contextmanager
    def urgent_channel(self) -> Iterator[paramiko.Channel]:
        """A channel that waits for none: on the live link outside the bound, else on a connection of its own."""
        with contextlib.ExitStack() as stack:
            try:
                channel = self.link().transport.open_session(timeout=self.timeout)
            except (paramiko.SSHException, EOFError, OSError):
                link = stack.enter_context(Link.open(self.target, self._given))
                channel = link.transport.open_session(timeout=self.timeout)
            yield stack.enter_context(contextlib.closing(channel))

    def _busy(self, wait: float | None) -> RemoteFailed:
        return RemoteFailed(
            "WB-SSH-BUSY",
            f"all {self._limit} channels to {self.target.name} were in use for {wait:g} s",
            expected="a free channel: some earlier command or stream has to end first",
            next="close the streams that are not read to their end",
        )

    def _refused(self, error: Exception) -> RemoteFailed:
        return RemoteFailed(
            "WB-SSH-CHANNEL",
            f"{self.target.name} refuses to run commands over this connection: {error}",
            expected="an SSH server that allows a session (MaxSessions of at least 1)",
            next=f"ssh {by_hand(self.target.name)} true",
        )

    def retry(self, work: Callable[[], T], *, attempts: int = 5) -> T:
        """Do idempotent ``work`` again on a new connection when the link breaks, up to ``attempts`` times."""
        for attempt in range(attempts):
            try:
                return work()
            except Transient:
                if attempt == attempts - 1 or self._closed:
                    raise
                time.sleep(_BACKOFF[min(attempt, len(_BACKOFF) - 1)])
        raise AssertionError("unreachable")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._link is not None:
                self._link.close()
                self._link = None
