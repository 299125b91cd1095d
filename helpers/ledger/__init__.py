"""What an investigation leaves behind: a ledger of what was claimed and seen, and a report that others re-check.

>>> from helpers.ledger import open_ledger
>>> ledger = open_ledger("case")                          # doctest: +SKIP
"""

from __future__ import annotations

from helpers.ledger.book import Ledger as Ledger
from helpers.ledger.book import ledgers as ledgers
from helpers.ledger.book import open_ledger as open_ledger
from helpers.ledger.book import read_ledger as read_ledger
