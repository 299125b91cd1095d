"""Arithmetic and comparisons, of numbers, of lists of ids, of the stream's parts."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from helpers.source.setter.attributes import Attributes
from helpers.source.setter.values import (
    UNKNOWN,
    Choice,
    Flag,
    Frame,
    Half,
    Id,
    ListValue,
    Owed,
    Raised,
    Tokens,
    Unknown,
    Value,
    Whole,
    new_list,
    origins_of,
)

ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
TENSORS = (Whole, Half, Owed)


class Operators(Attributes):
    """What operators make of values."""

    def make_set(self, items: tuple[Value, ...], node: ast.AST) -> ListValue:
        """A set: equal members once, with the origins of all of them; its order is nobody's business."""
        kept: dict[Value, Value] = {}
        for item in items:
            if item in kept and isinstance(item, int):
                kept[item] = Id(int(item), origins_of(kept[item], item))
            else:
                kept[item] = item
        return new_list(tuple(kept.values()), ordered=len(kept) < 2, site=node, is_set=True)

    def arithmetic(self, node: ast.BinOp | ast.AugAssign, a: Value, b: Value, frame: Frame) -> Value:
        op = node.op
        known = (int, float, str)
        if isinstance(a, known) and isinstance(b, known):
            work = ARITHMETIC.get(type(op))
            if work is None:
                return Unknown(f"{type(op).__name__} is not read", self.place(node, frame))
            try:
                made = work(a, b)
            except (TypeError, ZeroDivisionError) as error:
                raise Raised(type(error).__name__, str(error), self.place(node, frame)) from None
            origins = origins_of(a, b)
            return Id(made, origins) if origins and isinstance(made, int) else made
        if isinstance(op, ast.Add) and isinstance(a, ListValue) and isinstance(b, ListValue | tuple):
            members = (*self.items(a, node, frame), *self.items(b, node, frame))
            return new_list(members, ordered=a.ordered and (not isinstance(b, ListValue) or b.ordered), site=node)
        if isinstance(op, ast.BitOr) and isinstance(a, ListValue) and isinstance(b, ListValue):
            return self.make_set((*self.items(a, node, frame), *self.items(b, node, frame)), node)
        if isinstance(op, ast.Add) and isinstance(a, tuple) and isinstance(b, tuple):
            return a + b
        tensor = isinstance(a, TENSORS) or isinstance(b, TENSORS)
        if tensor and (a is None or b is None):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}.get(type(op), type(op).__name__)
            kinds = " and ".join(f"'{'NoneType' if v is None else 'Tensor'}'" for v in (a, b))
            message = f"unsupported operand type(s) for {sign}: {kinds}"
            ran = self.state["ran"]
            layer = ran if self.trigger() and isinstance(ran, int) else None
            raise Raised("TypeError", message, self.place(node, frame), self.trigger(), layer)
        if isinstance(op, ast.Add) and isinstance(a, Half) and isinstance(b, Half) and a.boundary == b.boundary:
            return Whole(a.boundary) if a.part != b.part else Unknown("a term added to itself", self.place(node, frame))
        if tensor and self.state["ran"] == 0 and (a == Whole(0) or b == Whole(0)):
            # Whatever the embedding is scaled or shifted by before layer 0: boundary 0 is what enters that layer.
            return Whole(0)
        return Unknown(UNKNOWN, self.place(node, frame))

    def compare(self, op: ast.cmpop, a: Value, b: Value, node: ast.AST, frame: Frame) -> Value:
        unknown = Unknown(UNKNOWN, self.place(node, frame))
        if isinstance(op, ast.Is | ast.IsNot):
            if a is None and b is None:
                return isinstance(op, ast.Is)
            if (a is None or b is None) and self.is_something(b if a is None else a):
                return isinstance(op, ast.IsNot)
            if isinstance(a, bool) and isinstance(b, bool):
                return (a is b) == isinstance(op, ast.Is)
            return unknown
        if isinstance(op, ast.In | ast.NotIn):
            if isinstance(a, Unknown | Choice) or isinstance(b, Unknown | Choice | Tokens):
                return unknown
            members = self.items(b, node, frame)
            hits = [m for m in members if isinstance(m, int | str) and m == a]
            if not hits and any(isinstance(m, Unknown | Choice) for m in members):
                return unknown
            found = bool(hits) == isinstance(op, ast.In)
            origins = origins_of(*hits)
            return Flag(found, origins) if hits else found
        if isinstance(a, Flag):
            a = a.value
        if isinstance(b, Flag):
            b = b.value
        if isinstance(a, ListValue) and isinstance(b, ListValue):
            a, b = self.items(a, node, frame), self.items(b, node, frame)
        plain = (int, float, str, tuple, type(None), range)
        work = COMPARISONS.get(type(op))
        if isinstance(a, plain) and isinstance(b, plain) and work is not None:
            try:
                return bool(work(a, b))
            except TypeError as error:
                raise Raised("TypeError", str(error), self.place(node, frame)) from None
        return unknown

    def is_something(self, value: Value) -> bool:
        """Surely not None."""
        if isinstance(value, Choice):
            return all(self.is_something(option) for option in value.options)
        return value is not None and not isinstance(value, Unknown)
