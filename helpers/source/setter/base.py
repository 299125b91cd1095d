"""What all parts of the reader share: the trail, the settings of one reading, the evidence, the truth of a value."""

from __future__ import annotations

import ast

from helpers.source.setter.trail import Trail
from helpers.source.setter.values import (
    Bound,
    Choice,
    ClassRef,
    Flag,
    Frame,
    Function,
    ListValue,
    Native,
    Obj,
    Origins,
    Place,
    Raised,
    Tap,
    Unknown,
    Unread,
    Value,
)

MAX_STEPS = 3_000_000


class Base:
    """The state of one reading: one model, so many layers."""

    def __init__(self, num_layers: int) -> None:
        self.num_layers: Value = num_layers
        self.trail = Trail()
        # Written through the trail only. ran: layers that the forward pass has run; trigger: which ids the last test
        # that came out true depended on; indexed: which ids last picked a layer.
        self.state: dict[str, Value] = {"ran": 0, "trigger": frozenset(), "indexed": frozenset()}
        self.evidence: dict[Place, None] = {}
        self.assumed: dict[str, None] = {}
        # Where the forward pass itself would raise, on whichever side of a branch: why an id taps nothing.
        self.raised: dict[Place, Raised] = {}
        # Attributes of objects that were looked at, on whichever side of a branch.
        self.looked: set[str] = set()
        self._steps = 0
        # Objects that the setter wrote lists to or marked: the forward pass of their owner reads them.
        self.written: dict[str, Value] = {"owners": ()}

    def step(self, node: ast.AST, frame: Frame) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unread(self.place(node, frame), "reading on would take too long")

    def place(self, node: ast.AST, frame: Frame) -> Place:
        return frame.module.at(getattr(node, "lineno", 1))

    def prove(self, node: ast.AST, frame: Frame) -> None:
        """Keeps a line as evidence."""
        self.evidence.setdefault(self.place(node, frame))

    def assume(self, what: str) -> None:
        self.assumed.setdefault(what)

    def trigger(self) -> Origins:
        found: Origins = self.state["trigger"]
        return found

    def truth(self, value: Value) -> bool | None:
        """Whether a value counts as true; None where the source does not say."""
        if isinstance(value, Flag):
            return value.value
        if isinstance(value, Choice):
            truths = {self.truth(option) for option in value.options}
            return truths.pop() if len(truths) == 1 else None
        if isinstance(value, ListValue):
            return bool(value.items) if isinstance(value.items, tuple) else None
        if isinstance(value, Obj | Function | Native | Bound | ClassRef):
            return True
        if value is None or isinstance(value, int | str | float | tuple | dict | range):
            return bool(value)
        return None

    def test(self, value: Value) -> bool | None:
        """The truth of a condition; one that the ids decide to be true is remembered as what triggers the next tap."""
        if isinstance(value, Flag) and value.value:
            self.trail.write(self.state, "trigger", value.origins)
        return self.truth(value)

    def items(self, value: Value, node: ast.AST, frame: Frame) -> tuple[Value, ...]:
        """The members of something that can be iterated.

        Raises:
            Unread: they are not known.
            Raised: Python itself would raise.
        """
        if isinstance(value, ListValue):
            held = value.items
            if isinstance(held, Unknown):
                raise Unread(held.place or self.place(node, frame), held.reason)
            return tuple(i.value if isinstance(i, Tap) else i for i in held)
        if isinstance(value, range | tuple | str):
            return tuple(value)
        if isinstance(value, dict):
            return tuple(value.keys())
        if value is None or isinstance(value, int | float):
            kind = "NoneType" if value is None else type(value).__mro__[-2].__name__
            raise Raised("TypeError", f"'{kind}' object is not iterable", self.place(node, frame))
        raise self.lost(value, node, frame)

    def lost(self, value: Value, node: ast.AST, frame: Frame) -> Unread:
        """The end of the reading at a value that is needed and not known."""
        here = self.place(node, frame)
        if isinstance(value, Unknown) and value.place is not None:
            return Unread(value.place, f"{value.reason} (needed at {here})")
        return Unread(here, f"{ast.unparse(node)[:80]} is not known from the source")
