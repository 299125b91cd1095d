"""One layer of the forward pass: which boundary enters, what it captures on the way in, which boundary leaves."""

from __future__ import annotations

import ast

from helpers.source.setter import classes
from helpers.source.setter.statements import Statements
from helpers.source.setter.values import (
    Bound,
    ClassRef,
    Frame,
    Function,
    Half,
    ListValue,
    Native,
    Obj,
    Owed,
    Unknown,
    Unread,
    Value,
    Whole,
)


class Layers(Statements):
    """Reading of calls of layers."""

    def entering(self, held: Value, residual: Value) -> int | None:
        """The boundary of a stream given as one tensor, or as an output and a residual; None where it is not one."""
        if isinstance(held, Whole | Owed) and residual is None:
            return held.boundary
        if isinstance(held, Half) and isinstance(residual, Half) and {held.part, residual.part} == {"output", "residual"}:
            return held.boundary if held.boundary == residual.boundary else None
        return None

    def layer_call(
        self, layer: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> Value:
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
        if any(self.collects(v) for v in (*args, *kwargs.values())):
            self.capture_within(layer, results, node, frame)
        self.trail.write(self.state, "ran", self.state["ran"] + 1)
        leaving = [self.leaving(cls, forward, inner, index or 0) for cls, forward, inner in results]
        return self.joined(leaving, node, frame)

    def collects(self, value: Value) -> bool:
        """Whether an argument could take a tap: a list, its bound method, a function of the model's."""
        return isinstance(value, ListValue | Function) or (isinstance(value, Native) and isinstance(value.this, ListValue))

    def stream_of(self, inner: Frame) -> Value:
        """The layer's argument that is the stream."""
        if "hidden_states" in inner.env:
            return inner.env["hidden_states"]
        streams = [v for v in inner.env.values() if isinstance(v, Whole | Owed) or getattr(v, "part", "") == "output"]
        return streams[0] if len(streams) == 1 else Unknown()

    def capture_within(
        self, layer: Obj, readings: list[tuple[ClassRef, Function, Frame]], node: ast.AST, frame: Frame
    ) -> None:
        """Reads the layer's own forward, as far as the collector goes in it; all classes it may have must agree."""
        for i, (_, forward, inner) in enumerate(readings):
            mark = self.trail.mark()
            self.depth += 1
            try:
                self.body(forward, inner)
            finally:
                self.depth -= 1
            taken = self.snapshot(inner)
            if i == 0:
                first = taken
            elif not self.equal(first, taken):
                raise Unread(self.place(node, frame), "the layer types capture in different ways")
            if i < len(readings) - 1:
                self.trail.undo(mark)
        del layer

    def snapshot(self, inner: Frame) -> Value:
        """Where the taps lie that the layer's collectors hold."""
        held = [v.this if isinstance(v, Native) else v for v in inner.env.values()]
        return tuple(
            tuple(getattr(t, "value", t) for t in v.items) for v in held if isinstance(v, ListValue) and v.items
        )

    def leaving(self, cls: ClassRef, forward: Function, inner: Frame, index: int) -> Value:
        """What the layer returns, as parts of the next boundary."""
        shape = self.returns(forward)
        after = index + 1
        lost = Unknown(f"what {cls.name} returns besides the stream", forward.module.at(forward.node.lineno))
        if "residual" in inner.env:
            if shape is None or "residual" not in shape[1:]:
                raise Unread(forward.module.at(forward.node.lineno), f"what {cls.name} returns is not known")
            at = shape.index("residual", 1)
            return tuple(
                Half(after, "output") if i == 0 else Half(after, "residual") if i == at else lost
                for i in range(len(shape))
            )
        stream = Owed(after) if self.state.get("batch") else Whole(after)
        return stream if shape is None else (stream, *(lost for _ in shape[1:]))

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
            for found in own_nodes(forward.node):
                if isinstance(found, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == node.id for t in found.targets
                ):
                    if isinstance(found.value, ast.Tuple):
                        return self.shape(found.value, forward)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().forward" and forward.owner:
            base = classes.method(forward.owner, "forward", after=forward.owner)
            if base is not None:
                inner = self.returns(base)
                return tuple(inner) if inner is not None else None
        return None

    def bound_forward(self, this: Obj) -> Bound | None:
        function = classes.method(this.cls, "forward")
        return Bound(function, this) if function is not None else None


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
