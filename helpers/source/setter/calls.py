"""Calls: the source's own functions, read in turn; what is not read leaves its arguments unknown."""

from __future__ import annotations

import ast
from abc import abstractmethod

from helpers.source.setter import classes
from helpers.source.setter.natives import Natives
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
    Tokens,
    Unknown,
    Unread,
    Value,
    Whole,
    dotted,
)

MAX_DEPTH = 12


class Calls(Natives):
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

    def invoke(
        self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> Value:
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
        func = node.func if isinstance(node, ast.Call) else node
        if frame.role == "setter" and "layers_to_capture" in dotted(func):
            raise Unread(self.place(node, frame), f"{dotted(func)} is not in this source")
        lost = Unknown("what this calls is not read", self.place(node, frame), dotted(func))
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

    def joined(self, values: list[Value], node: ast.AST, frame: Frame) -> Value:
        result = values[0]
        for value in values[1:]:
            result = join(result, value, self.place(node, frame))
        return result

    def init_of(self, cls: ClassRef) -> Function | None:
        return classes.method(cls, "__init__")
