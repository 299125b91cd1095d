"""One layer of the forward pass: which boundary enters, what it captures on the way in, which boundary leaves."""

from __future__ import annotations

import ast

from helpers.source.setter import classes
from helpers.source.setter.statements import Statements
from helpers.source.setter.trail import same
from helpers.source.setter.values import (
    ClassRef,
    Frame,
    Function,
    Half,
    ListValue,
    Native,
    Obj,
    Owed,
    Place,
    Unknown,
    Unread,
    Value,
    Whole,
    names_in,
)

REPLACES = "REPLACE_AT_EXIT"


class Layers(Statements):
    """Reading of calls of layers."""

    def entering(self, held: Value, residual: Value) -> int | None:
        """The boundary of a stream given as one tensor, or as an output and a residual; None where it is not one."""
        if isinstance(held, Whole | Owed) and residual is None:
            return held.boundary
        if (
            isinstance(held, Half)
            and isinstance(residual, Half)
            and {held.part, residual.part} == {"output", "residual"}
        ):
            return held.boundary if held.boundary == residual.boundary else None
        return None

    def layer_call(self, layer: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """Runs a layer: checks that the stream which enters is the boundary of its index, lets it capture."""
        results = []
        index = layer.layer
        for cls in layer.classes:
            forward = classes.method(cls, "forward")
            if forward is None:
                raise Unread(self.place(node, frame), f"{cls.name} has no forward in this source")
            inner = Frame(forward.module, {}, "layer", None, forward.owner, layer)
            self.bind(forward, [layer, *args], kwargs, inner, node, frame)
            held = self.stream_of(inner)
            entered = self.entering(held, inner.env.get("residual"))
            if index == 0 and isinstance(held, Unknown) and self.state["ran"] == 0:
                entered = 0  # By definition: boundary 0 is what enters layer 0.
            if entered != index:
                raise Unread(self.place(node, frame), f"what enters layer {index} is not known to be boundary {index}")
            results.append((cls, forward, inner))
        sinks = [s for v in (*args, *kwargs.values()) for s in self.sinks(v)]
        if sinks:
            self.capture_within(sinks, results, node, frame)
        self.trail.write(self.state, "ran", self.state["ran"] + 1)
        leaving = [self.leaving(cls, forward, inner, index or 0) for cls, forward, inner in results]
        return self.joined(leaving, node, frame)

    def sinks(self, value: Value) -> list[ListValue]:
        """Lists that an argument can append to: itself, of its bound method, those that a function closes over."""
        if isinstance(value, ListValue):
            return [value]
        if isinstance(value, Native):
            return self.sinks(value.this)
        if isinstance(value, Function) and value.closure is not None:
            mentioned = set(names_in(value.node))
            return [v for k, v in value.closure.env.items() if k in mentioned and isinstance(v, ListValue)]
        return []

    def stream_of(self, inner: Frame) -> Value:
        """The layer's argument that is the stream."""
        if "hidden_states" in inner.env:
            return inner.env["hidden_states"]
        streams = [v for v in inner.env.values() if isinstance(v, Whole | Owed) or getattr(v, "part", "") == "output"]
        return streams[0] if len(streams) == 1 else Unknown()

    def capture_within(
        self, sinks: list[ListValue], readings: list[tuple[ClassRef, Function, Frame]], node: ast.AST, frame: Frame
    ) -> None:
        """Reads the layer's own forward, for what it gives to the collectors; all classes it may have must agree."""
        first: Value = None
        for i, (_, forward, inner) in enumerate(readings):
            mark = self.trail.mark()
            self.depth += 1
            try:
                self.body(forward, inner)
            finally:
                self.depth -= 1
            taken = tuple(sink.items for sink in sinks)
            if i > 0 and not same(first, taken):
                raise Unread(self.place(node, frame), "the layer types capture in different ways")
            first = taken
            if i < len(readings) - 1:
                self.trail.undo(mark)

    def leaving(self, cls: ClassRef, forward: Function, inner: Frame, index: int) -> Value:
        """What the layer returns, as parts of the next boundary."""
        shape = classes.once(cls, ("returns",), lambda: self.returns(forward))
        after = index + 1
        lost = Unknown(f"what {cls.name} returns besides the stream", forward.module.at(forward.node.lineno))
        if "residual" in (a.arg for a in forward.node.args.args + forward.node.args.kwonlyargs):
            if shape is None or "residual" not in shape[1:]:
                raise Unread(forward.module.at(forward.node.lineno), f"what {cls.name} returns is not known")
            at = shape.index("residual", 1)
            return tuple(
                Half(after, "output") if i == 0 else Half(after, "residual") if i == at else lost
                for i in range(len(shape))
            )
        stream: Value = Owed(after) if self.state.get("batch") else Whole(after)
        replaces = self.replaces_stream(cls)
        if replaces is not None:
            self.evidence.setdefault(replaces)
            stream = Whole(after)
        return stream if shape is None else (stream, *(lost for _ in shape[1:]))

    def replaces_stream(self, cls: ClassRef) -> Place | None:
        """The line where a layer declares that its output is the whole stream, not a term of it (0.5.23's Gemma 4)."""
        return classes.once(cls, ("replaces",), lambda: self.find_replacing(cls))

    def find_replacing(self, cls: ClassRef) -> Place | None:
        for each in classes.mro(cls):
            for node in ast.walk(each.node):
                if isinstance(node, ast.keyword) and node.arg == "update" and ast.unparse(node.value) == REPLACES:
                    return each.module.at(node.value.lineno)
        return None

    def returns(self, forward: Function) -> list[str] | None:
        """Names in the tuple that a layer returns; None where it returns one value.

        Raises:
            Unread: its returns differ.
        """
        assert isinstance(forward.node, ast.FunctionDef)
        shapes = {self.shape(node.value, forward) for node in own_nodes(forward.node) if isinstance(node, ast.Return)}
        if len(shapes) != 1:
            raise Unread(forward.module.at(forward.node.lineno), "a layer returns now this, now that")
        shape = shapes.pop()
        return list(shape) if shape is not None else None

    def shape(self, node: ast.expr | None, forward: Function) -> tuple[str, ...] | None:
        if isinstance(node, ast.Tuple):
            return tuple(e.id if isinstance(e, ast.Name) else "" for e in node.elts)
        if isinstance(node, ast.Name):
            assigned = (n for n in own_nodes(forward.node) if isinstance(n, ast.Assign))
            for found in assigned:
                to_it = any(isinstance(t, ast.Name) and t.id == node.id for t in found.targets)
                if to_it and isinstance(found.value, ast.Tuple):
                    return self.shape(found.value, forward)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().forward" and forward.owner:
            base = classes.method(forward.owner, "forward", after=forward.owner)
            if base is not None:
                inner = self.returns(base)
                return tuple(inner) if inner is not None else None
        return None


def own_nodes(function: ast.AST) -> list[ast.AST]:
    """Nodes of a function without those of functions within it."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return found
