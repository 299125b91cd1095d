"""Built-in functions, and methods of lists, sets, dictionaries and tensors."""

from __future__ import annotations

import ast
from abc import abstractmethod

from helpers.source.setter.expressions import Expressions
from helpers.source.setter.values import (
    UNKNOWN,
    Choice,
    Flag,
    Frame,
    Half,
    Id,
    ListValue,
    Native,
    Obj,
    Owed,
    Raised,
    Super,
    Tap,
    Unknown,
    Unread,
    Value,
    Whole,
    new_list,
    origins_of,
)


class Natives(Expressions):
    """Applies what Python itself brings."""

    @abstractmethod
    def unknown_call(self, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """The value of a call into code that is not read."""

    def native_method(self, function: Native, args: list[Value], node: ast.AST, frame: Frame) -> Value:
        """A method of a list, a set, a tensor, a dictionary."""
        held, name = function.this, function.name
        if isinstance(held, ListValue):
            return self.list_method(held, name, args, node, frame)
        if isinstance(held, dict):
            if name == "get" and args and isinstance(args[0], str | int):
                return held.get(args[0], args[1] if len(args) > 1 else None)
            if name in ("values", "keys"):
                return tuple(getattr(held, name)())
            if name == "items":
                return tuple(tuple(pair) for pair in held.items())
        if isinstance(held, Whole | Half | Owed) and name in ("clone", "contiguous", "detach", "to"):
            return held
        return self.unknown_call(args, {}, node, frame)

    def list_method(self, held: ListValue, name: str, args: list[Value], node: ast.AST, frame: Frame) -> Value:
        if name in ("finalize", "copy"):
            return held
        items = self.items(held, node, frame)
        if name in ("append", "add", "capture"):
            made: Value = args[0]
            if frame.role in ("forward", "layer"):
                made = Tap(args[0], self.place(node, frame), self.trigger())
            after = (*self.raw(held), made)
        elif name in ("extend", "update"):
            after = (*items, *(i for a in args for i in self.items(a, node, frame)))
        elif name == "insert" and isinstance(args[0], int):
            at = list(items)
            at.insert(args[0], args[1])
            after = tuple(at)
        elif name == "clear":
            after = ()
        elif name == "sort" and all(isinstance(i, int) for i in items):
            after = tuple(sorted(items))
        elif name in ("remove", "discard") and isinstance(args[0], int) and args[0] in items:
            at = list(items)
            at.remove(args[0])
            after = tuple(at)
        else:
            raise Unread(self.place(node, frame), f".{name} of a list is not read")
        if held.is_set:
            after = self.raw(self.make_set(after, node))
        self.trail.write(held.cell, "items", after)
        return None

    def raw(self, held: ListValue) -> tuple[Value, ...]:
        """The members with what is known of them as taps."""
        return held.items if isinstance(held.items, tuple) else ()

    def builtin(self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        unknown = Unknown(UNKNOWN, self.place(node, frame))
        if name == "super":
            owner = frame.owner
            up = frame.outer
            while owner is None and up is not None:
                owner, up = up.owner, up.outer
            return Super(frame.this, owner) if owner is not None else unknown
        if name == "hasattr" and len(args) == 2 and isinstance(args[1], str):
            known = self.has_attribute(args[0], args[1])
            return unknown if known is None else known
        if name == "getattr" and len(args) >= 2 and isinstance(args[1], str):
            has = self.has_attribute(args[0], args[1]) if isinstance(args[0], Obj) else True
            if has is False and len(args) == 3:
                return args[2]
            expression = node.args[0] if isinstance(node, ast.Call) else node
            return self.attribute(args[0], args[1], expression, frame)  # type: ignore[arg-type]
        if name == "setattr" and len(args) == 3 and isinstance(args[1], str):
            self.set_attribute(args[0], args[1], args[2], node, frame)
            return None
        if name == "isinstance" and args and isinstance(args[0], ListValue | tuple | int | str):
            return self.is_instance(args[0], args[1], unknown)
        if name == "print":
            return None
        if any(isinstance(a, Unknown | Choice) for a in args):
            return self.unknown_call(args, kwargs, node, frame)
        return self.collection(name, args, kwargs, node, frame, unknown)

    def is_instance(self, value: Value, kinds: Value, unknown: Unknown) -> Value:
        if isinstance(kinds, Unknown) and kinds.path.split(".")[-1] == "Tensor":
            return False
        names = [k.name for k in (kinds if isinstance(kinds, tuple) else (kinds,)) if isinstance(k, Native)]
        if not names:
            return unknown
        own = ("set" if value.is_set else "list") if isinstance(value, ListValue) else type(value).__mro__[-2].__name__
        return own in names

    def collection(
        self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame, unknown: Unknown
    ) -> Value:
        if name == "len" and args:
            return len(self.items(args[0], node, frame))
        if name == "range" and args and all(isinstance(a, int) for a in args):
            return range(*args)
        if name in ("int", "abs") and args and isinstance(args[0], int):
            made = int(args[0]) if name == "int" else abs(int(args[0]))
            return Id(made, origins_of(args[0])) if isinstance(args[0], Id) else made
        if name == "bool" and args and self.truth(args[0]) is not None:
            return args[0] if isinstance(args[0], Flag) else self.truth(args[0])
        if name in ("list", "tuple", "set", "frozenset", "iter"):
            members = self.items(args[0], node, frame) if args else ()
            if name in ("set", "frozenset"):
                return self.make_set(members, node)
            ordered = not (args and isinstance(args[0], ListValue)) or args[0].ordered
            return members if name == "tuple" and ordered else new_list(members, ordered=ordered, site=node)
        if name == "zip":
            return tuple(zip(*(self.items(a, node, frame) for a in args), strict=False))
        if not args:
            return unknown
        items = self.items(args[0], node, frame) if len(args) == 1 or name in ("enumerate", "sum") else tuple(args)
        if name == "enumerate":
            start = args[1] if len(args) > 1 else kwargs.get("start", 0)
            return tuple(enumerate(items, start)) if isinstance(start, int) else unknown
        if name == "reversed":
            return new_list(tuple(reversed(items)), site=node)
        if name in ("any", "all"):
            truths = [self.truth(i) for i in items]
            return unknown if None in truths else (any(truths) if name == "any" else all(truths))
        if not all(isinstance(i, int) for i in items):
            return unknown
        if name == "sorted" and "key" not in kwargs:
            return new_list(tuple(sorted(items, reverse=kwargs.get("reverse") is True)), site=node)
        if name in ("min", "max") and not kwargs:
            if not items:
                raise Raised("ValueError", f"{name}() arg is an empty sequence", self.place(node, frame))
            return min(items) if name == "min" else max(items)
        return sum(items) if name == "sum" else unknown
