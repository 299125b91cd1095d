"""What the sentences are put together of: rows of a table, lists of words, values with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: Said where a table of acceptance has no row.
NOBODY = "No configuration here speculates."


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Its rows, in order."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def span(row: Mapping[str, Any], column: str, form: str) -> str:
    """A value with its interval, which ``low`` and ``high`` have.

    >>> span({"rate": 0.5, "low": 0.4, "high": 0.6}, "rate", ".1%")
    '50.0% [40.0%, 60.0%]'
    """
    return f"{row[column]:{form}} [{row['low']:{form}}, {row['high']:{form}}]"


def steps(number: int) -> str:
    """A number of draft steps."""
    return f"{number} draft step{'' if number == 1 else 's'}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words as a list in a sentence; at least one.

    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def sentence(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]
