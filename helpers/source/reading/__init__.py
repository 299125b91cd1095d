"""How an engine wires its taps, read from its source by syntax tree: nothing of it is imported or run.

Each statement carries the lines that prove it; what cannot be read for sure is said to be unread.
"""

from __future__ import annotations

from helpers.source.reading.report import WiringReport as WiringReport
from helpers.source.reading.report import read_wiring as read_wiring
from helpers.source.reading.statement import Statement as Statement
