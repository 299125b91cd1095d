"""Calls: built-ins, methods of lists, and the source's own functions, read in turn."""

from __future__ import annotations

import ast
from abc import abstractmethod

from helpers.source.setter import classes
from helpers.source.setter.expressions import Expressions
from helpers.source.setter.trail import join
from helpers.source.setter.values import (
    Bound,
    Choice,
    ClassRef,
    Flag,
    Frame,
    Function,
    Half,
    Id,
    ListValue,
    Native,
    Obj,
    Owed,
    Raised,
    Super,
    Tap,
    Tokens,
    Unknown,
    Unread,
    Value,
    Whole,
    new_list,
    origins_of,
)

MAX_DEPTH = 12


class Calls(Expressions):
    """Applies what can be called; what only the engine's library does is left to the layer above."""

    depth = 0

    @abstractmethod
    def body(self, function: Function, frame: Frame) -> Value:
        """Reads a function's body and gives what it returns."""

    @abstractmethod
    def engine(
        self, name: str, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> tuple[bool, Value]:
        """(True, value) where the call is one of the engine's own operations on layers and the stream."""

    def call(self, node: ast.Call, frame: Frame) -> Value:
        function = self.value(node.func, frame)
        args: list[Value] = []
        for arg in node.args:
            value = self.value(arg, frame)
            known = not isinstance(value, Unknown)
            args.extend(self.items(value, arg, frame) if isinstance(arg, ast.Starred) and known else [value])
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs |= {str(k): v for k, v in value.items()}
        return self.apply(function, args, kwargs, node, frame)

    def apply(self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        func = node.func if isinstance(node, ast.Call) else node
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        handled, value = self.engine(name, function, args, kwargs, node, frame)
        return value if handled else self.invoke(function, args, kwargs, node, frame)

    def invoke(self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """Calls a value that is not one of the engine's own operations."""
        if isinstance(function, Choice):
            options = [o for o in function.options if o is not None]
            if options and all(isinstance(o, ClassRef) for o in options):
                return Obj(tuple(options), tuple(args), kwargs, site=node)
            if len(options) == 1:
                return self.invoke(options[0], args, kwargs, node, frame)
        if isinstance(function, ClassRef):
            return Obj((function,), tuple(args), kwargs, site=node)
        if isinstance(function, Native):
            if function.this is not None:
                return self.native_method(function, args, node, frame)
            return self.builtin(function.name, args, kwargs, node, frame)
        if isinstance(function, Bound | Function):
            return self.read(function, args, kwargs, node, frame)
        return self.unknown_call(args, kwargs, node, frame)

    def read(
        self, function: Bound | Function, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> Value:
        """Reads on into a function of the source; outside the setter, one that cannot be read is a black box."""
        this = function.this if isinstance(function, Bound) else None
        source = function.function if isinstance(function, Bound) else function
        given = [this, *args] if isinstance(function, Bound) else args
        near = isinstance(function, Bound) or source.closure is not None or frame.role == "setter"
        if not near and not any(self.matters(a) for a in (*args, *kwargs.values())):
            return self.unknown_call(args, kwargs, node, frame)
        mark = self.trail.mark()
        try:
            return self.enter(source, given, kwargs, node, frame, this=this)
        except Unread:
            if frame.role == "setter" or source.closure is not None:
                raise
            self.trail.undo(mark)
            return self.unknown_call(args, kwargs, node, frame)

    def matters(self, value: Value) -> bool:
        return isinstance(value, Whole | Half | Owed | ListValue | Id | Flag)

    def unknown_call(self, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """A call into code that is not read: its result is unknown, and so is any list that was handed to it."""
        text = ast.unparse(node)[:60]
        lost = Unknown(f"what {text} does is not read", self.place(node, frame), text)
        for value in (*args, *kwargs.values()):
            held = value.this if isinstance(value, Native) else value
            if isinstance(held, ListValue) and frame.role != "init":
                self.trail.write(held.cell, "items", lost)
        before_layers = self.state["ran"] == 0
        if before_layers and any(isinstance(v, Tokens) or v == Whole(0) for v in (*args, *kwargs.values())):
            return Whole(0)
        return lost

    def enter(
        self,
        function: Function,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST,
        frame: Frame,
        *,
        this: Value = None,
        role: str | None = None,
    ) -> Value:
        """Reads a function of the source with these arguments."""
        if self.depth >= MAX_DEPTH:
            raise Unread(self.place(node, frame), "calls are nested too deeply")
        inner = Frame(function.module, {}, role or frame.role, function.closure, function.owner, this)
        self.bind(function, args, kwargs, inner, node, frame)
        self.depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, inner)
            if frame.role == "setter":
                self.prove(function.node, inner)
            return self.body(function, inner)
        finally:
            self.depth -= 1

    def bind(
        self,
        function: Function,
        args: list[Value],
        kwargs: dict[str, Value],
        inner: Frame,
        node: ast.AST,
        frame: Frame,
    ) -> None:
        """Parameters to arguments, defaults where there is none."""
        spec = function.node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
        defaults |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
        if len(args) > len(names) and spec.vararg is None:
            text = f"{function.name}() takes {len(names)} positional arguments but {len(args)} were given"
            raise Raised("TypeError", text, self.place(node, frame))
        given = dict(zip(names, args, strict=False))
        if spec.vararg is not None:
            given[spec.vararg.arg] = tuple(args[len(names) :])
        rest = {k: v for k, v in kwargs.items() if k not in names and k not in {a.arg for a in spec.kwonlyargs}}
        given |= {k: v for k, v in kwargs.items() if k not in rest}
        if spec.kwarg is not None:
            given[spec.kwarg.arg] = rest
        home = Frame(function.module, {}, "module", function.closure, function.owner, inner.this)
        for name in (*names, *(a.arg for a in spec.kwonlyargs)):
            if name not in given:
                text = f"{name} of {function.name}"
                given[name] = self.value(defaults[name], home) if name in defaults else Unknown(text, path=name)
        inner.env.update(given)

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
                self.prove(node, frame)
            after = (*items, made)
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
            after = tuple(self.make_set(after, node).items)
        self.trail.write(held.cell, "items", after)
        return None

    def builtin(self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        unknown = Unknown(f"{ast.unparse(node)[:60]} is not known", self.place(node, frame))
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

    def joined(self, values: list[Value], node: ast.AST, frame: Frame) -> Value:
        result = values[0]
        for value in values[1:]:
            result = join(result, value, self.place(node, frame))
        return result

    def init_of(self, cls: ClassRef) -> Function | None:
        return classes.method(cls, "__init__")
