"""Results as evidence: what each kind of result object says of itself, one reader a kind.

A result of another kind can speak for itself: a method ``__evidence__()`` that returns a `Summary`.
"""

from __future__ import annotations

from helpers.ledger.results.base import Kept as Kept
from helpers.ledger.results.base import Summary as Summary
from helpers.ledger.results.base import reader as reader
from helpers.ledger.results.base import summarise as summarise
