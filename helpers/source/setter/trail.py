"""What the reader wrote, so that both sides of a branch it cannot decide are read and then joined.

Two sides that agree leave a plain value; where they differ, the value becomes a choice or unknown, with the branch's
line as the reason. So a rule or a tap that hangs on something outside the source is never taken for sure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from helpers.source.setter.values import Choice, ListValue, Obj, Place, Raised, Tap, Unknown, Value

T = TypeVar("T")
MISSING = object()
Store = dict[str, Value]


class Trail:
    """An undo log over dictionaries, in which everything lies that the read code can change."""

    def __init__(self) -> None:
        self._log: list[tuple[Store, str, Value]] = []

    def write(self, store: Store, key: str, value: Value) -> None:
        self._log.append((store, key, store.get(key, MISSING)))
        store[key] = value

    def mark(self) -> int:
        return len(self._log)

    def undo(self, mark: int) -> None:
        while len(self._log) > mark:
            store, key, old = self._log.pop()
            if old is MISSING:
                store.pop(key, None)
            else:
                store[key] = old

    def _writes(self, mark: int) -> dict[tuple[int, str], tuple[Store, Value]]:
        return {(id(store), key): (store, store.get(key, MISSING)) for store, key, _ in self._log[mark:]}

    def fork(self, first: Callable[[], T], second: Callable[[], T], place: Place) -> tuple[T | None, T | None]:
        """Reads both sides and joins what they wrote. A side that raises is not the one that is taken.

        Returns what each side returned; None for the side that raised.

        Raises:
            Raised: both sides raise.
        """
        mark = self.mark()
        kept: list[dict[tuple[int, str], tuple[Store, Value]]] = []
        results: list[T | None] = []
        raised: list[Raised] = []
        for side in (first, second):
            try:
                results.append(side())
                kept.append(self._writes(mark))
            except Raised as error:
                results.append(None)
                raised.append(error)
            self.undo(mark)
        if len(raised) == 2:
            raise raised[0]
        keys = {key: write[0] for side_writes in kept for key, write in side_writes.items()}
        for key, store in keys.items():
            values = [w[key][1] if key in w else store.get(key[1], MISSING) for w in kept]
            joined = values[0] if len(values) == 1 else join(values[0], values[1], place)
            if joined is not MISSING:
                self.write(store, key[1], joined)
        return results[0], results[1]


def same(a: Value, b: Value) -> bool:
    """Whether two values are surely the same, also where both sides of a branch made them anew."""
    if a is b:
        return True
    if isinstance(a, Obj) and isinstance(b, Obj):
        return a.classes == b.classes and a.site is b.site and a.layer == b.layer
    if isinstance(a, ListValue) and isinstance(b, ListValue):
        alike = a.site is b.site and a.is_set == b.is_set and a.ordered == b.ordered
        return alike and isinstance(a.items, tuple) and isinstance(b.items, tuple) and same(a.items, b.items)
    if isinstance(a, Tap) and isinstance(b, Tap):
        # Which line took it is no difference in what was taken.
        return same(a.value, b.value) and a.origins == b.origins
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False


def join(a: Value, b: Value, place: Place) -> Value:
    """One value for both sides."""
    if isinstance(a, Tap) and isinstance(b, Tap) and same(a, b):
        return replace(a, also=tuple(dict.fromkeys((*a.also, b.place, *b.also))))
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(join(x, y, place) for x, y in zip(a, b, strict=True))
    if same(a, b):
        return a
    if a is MISSING or b is MISSING:
        made = b if a is MISSING else a
        if isinstance(made, Obj):
            return Choice((None, made))  # Who uses it counts on its being there.
        return Unknown("it is set on one side of a branch only", place)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return a if isinstance(a, Unknown) else b
    if isinstance(a, tuple) or isinstance(b, tuple) or isinstance(a, ListValue) or isinstance(b, ListValue):
        return Unknown("it differs between two branches that the source alone does not decide", place)
    options: list[Value] = []
    for value in (*_options(a), *_options(b)):
        if not any(same(value, known) for known in options):
            options.append(value)
    return Choice(tuple(options))


def _options(value: Value) -> tuple[Value, ...]:
    return value.options if isinstance(value, Choice) else (value,)
