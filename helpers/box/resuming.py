"""Going on after a lost connection: at once at first, then more patiently, and giving up only where nothing moves."""

from __future__ import annotations

import time

from helpers.box.meter import Meter
from helpers.box.transient import Transient

_PAUSES = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
_WINDOW = 1 << 21
_SMALLEST = 1 << 18


class Resumption:
    """Counts lost connections of one transfer.

    What is on its way when a link breaks has to be sent again. So each break halves the window, down to 256 KiB: on a
    link that breaks often little is lost, on one that does not nothing is slowed down.

    Attributes:
        window: for the next channel.
    """

    def __init__(self, meter: Meter) -> None:
        self.window = _WINDOW
        self._meter = meter
        self._failures = 0

    def moved(self) -> None:
        """Bytes have come: the patience starts anew."""
        self._failures = 0

    def after(self, error: Transient) -> None:
        """Wait as long as is due; or raise ``error`` when nothing has moved for too many tries."""
        if self._failures >= len(_PAUSES):
            error.message += f"; {self._meter.done} of {self._meter.total} bytes are here"
            error.next = "once the box answers again, give the same command: what has come is kept"
            raise error
        pause = _PAUSES[self._failures]
        if pause:
            self._meter.note(f"connection lost, trying again in {pause:g} s")
            time.sleep(pause)
        self._failures += 1
        self._meter.resumed += 1
        self.window = max(_SMALLEST, self.window // 2)
