"""Signals that end a command: each unwinds like Ctrl-C, so that a closed terminal or a `kill` leaves nothing behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], None] | signal.Handlers


class Interrupted(KeyboardInterrupt):
    """An interrupt by one of `ENDING`."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_status = 128 + number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP are `Interrupted`, as Ctrl-C is.

    What is ignored stays so (`nohup`). While the first one unwinds, only a further Ctrl-C is listened to: a terminal
    that closes sends several at once.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        for other in taken:
            signal.signal(other, signal.default_int_handler if other == signal.SIGINT else signal.SIG_IGN)
        raise Interrupted(number)

    taken = {number: before for number in ENDING if (before := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


@contextlib.contextmanager
def handling(handler: Handler) -> Iterator[None]:
    """Those of `ENDING` go to `handler` inside the block: SIG_IGN where what is put back must be put back whole."""
    previous = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def exit_status(error: BaseException) -> int:
    """The status that a shell expects of a command ended like this: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return error.exit_status if isinstance(error, Interrupted) else 128 + signal.SIGINT
