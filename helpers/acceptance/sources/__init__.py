"""Acceptance from whatever a server left behind: one parser a module, one meaning for all.

>>> from helpers.acceptance.sources import read_counters
>>> print(read_counters("server.log"))               # doctest: +SKIP
"""

from __future__ import annotations

from helpers.acceptance.sources.beside import beside as beside
from helpers.acceptance.sources.following import decode_rows as decode_rows
from helpers.acceptance.sources.following import figures_of as figures_of
from helpers.acceptance.sources.following import follow as follow
from helpers.acceptance.sources.following import read_log as read_log
from helpers.acceptance.sources.log import LogReader as LogReader
from helpers.acceptance.sources.reading import Kind as Kind
from helpers.acceptance.sources.reading import kind_of as kind_of
from helpers.acceptance.sources.reading import read_blocks as read_blocks
from helpers.acceptance.sources.reading import read_counters as read_counters
from helpers.acceptance.sources.result import Counters as Counters
from helpers.acceptance.sources.result import Part as Part
from helpers.acceptance.sources.result import Size as Size
from helpers.acceptance.sources.result import Spread as Spread
