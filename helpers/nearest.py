"""Did you mean: of names that there are the one that a mistyped name was likely meant to be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: How alike two names must be, as difflib measures it: of three letters one may be wrong, of six two.
ALIKE = 0.65
#: How alike names must be to be shown beside each other, where none of them may be the one that was meant.
NEAR = 0.5


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was likely meant; None where none is alike. Upper and lower case count as the same.

    >>> nearest("labb", ["lab", "gpu-box"]), nearest("Right", ["right"]), nearest("x", ["lab"])
    ('lab', 'right', None)
    """
    given = name.strip().casefold()
    names = {each.casefold(): each for each in reversed(list(known))}
    if not given:
        return None
    found = difflib.get_close_matches(given, list(names), n=1, cutoff=ALIKE)
    begun = [each for each in names if len(given) > 2 and each.startswith(given)]
    best = found or (begun if len(begun) == 1 else [])
    return names[best[0]] if best else None


def by_likeness(name: str, known: Iterable[str]) -> list[str]:
    """The names that are near, the most alike first; also those that begin as `name` does.

    >>> by_likeness("deepsek_v2", ["bert", "deepseek", "deepseek_v2", "deepseek_common/utils"])
    ['deepseek_v2', 'deepseek', 'deepseek_common/utils']
    """
    given = name.strip().casefold()
    if not given:
        return []
    likeness = {each: difflib.SequenceMatcher(None, each.casefold(), given).ratio() for each in known}
    near = [each for each in likeness if likeness[each] >= NEAR or each.casefold().startswith(given)]
    return sorted(near, key=lambda each: -likeness[each])


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to do about an unknown name: ask whether the nearest was meant, else ``otherwise``.

    >>> did_you_mean("labb", ["lab"], "look at ~/.ssh/config")
    "did you mean 'lab'? else: look at ~/.ssh/config"
    """
    near = nearest(name, known)
    if near is None:
        return otherwise
    return f"did you mean {near!r}?" + (f" else: {otherwise}" if otherwise else "")
