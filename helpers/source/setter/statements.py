"""Statements: each path that the source decides, both sides of those that it does not."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from helpers.source.setter.blocks import with_rest
from helpers.source.setter.calls import Calls
from helpers.source.setter.trail import join
from helpers.source.setter.values import (
    ClassRef,
    Flag,
    Frame,
    Function,
    Half,
    ListValue,
    Obj,
    Owed,
    Raised,
    Unknown,
    Unread,
    Value,
    Whole,
    names_in,
)


@dataclass(frozen=True)
class Left:
    """A block was left early: by return (with a value), break or continue."""

    how: str
    value: Value = None


# In these, what cannot be read is set aside as unknown: most of it has no bearing on ids or taps.
LENIENT = ("init", "layer", "forward", "module")


class Statements(Calls):
    """Reading of bodies."""

    def body(self, function: Function, frame: Frame) -> Value:
        assert isinstance(function.node, ast.FunctionDef)
        left = self.block(function.node.body, frame)
        return left.value if left is not None and left.how == "return" else None

    def initialise(self, this: Obj, cls: ClassRef) -> None:
        init = self.init_of(cls)
        if init is not None:
            frame = Frame(init.module, {}, "init", None, init.owner, this)
            self.enter(init, [this, *this.args], dict(this.kwargs), init.node, frame, this=this, role="init")

    def block(self, body: list[ast.stmt], frame: Frame) -> Left | None:
        for stmt in with_rest(body):
            left = self.guarded(stmt, frame)
            if left is not None:
                return left
        return None

    def guarded(self, stmt: ast.stmt, frame: Frame) -> Left | None:
        """One statement; what cannot be read in it is set aside where nothing of ours passes through it."""
        mark = self.trail.mark()
        try:
            return self.statement(stmt, frame)
        except Unread as error:
            if frame.role not in LENIENT or (frame.role != "init" and self.concerns(stmt, frame)):
                raise
            self.trail.undo(mark)
            self.forget(stmt, frame, Unknown(error.reason, error.place))
        except Raised as error:
            simple = isinstance(stmt, ast.Expr | ast.Assign | ast.AnnAssign)
            tapping = error.kind == "TypeError" and "Tensor" in error.message
            if isinstance(stmt, ast.Raise | ast.If) and frame.outer is not None:
                raise  # A function within another: its caller decides what becomes of it.
            if frame.role == "init":
                self.trail.undo(mark)
                self.forget(stmt, frame, Unknown(str(error), error.place))
            elif frame.role in ("forward", "layer") and simple and not tapping:
                if self.concerns(stmt, frame):
                    raise Unread(error.place, f"it seems to raise {error}") from error
                self.trail.undo(mark)
                self.forget(stmt, frame, Unknown(str(error), error.place))
            elif frame.role in ("forward", "layer") and simple:
                # A tap that fails; the reading goes on, to say what the others would be.
                self.raised.setdefault(error.place, error)
                self.prove(stmt, frame)
                failed = Unknown(str(error), error.place, failed=True)
                self.forget(stmt, frame, failed)
                self.fail_tap(stmt, failed, frame)
            else:
                raise
        return None

    def fail_tap(self, stmt: ast.stmt, failed: Unknown, frame: Frame) -> None:
        """Puts a failed tap where the statement would have put one: a branch without it is another outcome."""
        if (
            isinstance(stmt, ast.Expr)
            and isinstance(stmt.value, ast.Call)
            and isinstance(stmt.value.func, ast.Attribute)
        ):
            held = self.value(stmt.value.func.value, frame)
            if isinstance(held, ListValue) and stmt.value.func.attr in ("append", "capture"):
                self.list_method(held, "append", [failed], stmt, frame)

    def concerns(self, stmt: ast.stmt, frame: Frame) -> bool:
        """Whether a list of ours, a layer or the stream passes through a statement."""
        held = (frame.lookup(name)[1] for name in names_in(stmt))
        kinds = (ListValue, Whole, Half, Owed) if frame.role == "forward" else (ListValue,)
        return any(isinstance(v, kinds) or (isinstance(v, Obj) and v.layer is not None) for v in held)

    def forget(self, stmt: ast.stmt, frame: Frame, unknown: Unknown) -> None:
        """All that a statement assigns becomes unknown."""
        for node in ast.walk(stmt):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.trail.write(frame.env, node.id, unknown)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                held = frame.lookup(node.value.id)[1] if isinstance(node.value, ast.Name) else None
                if isinstance(held, Obj):
                    self.trail.write(held.attrs, node.attr, unknown)

    def statement(self, stmt: ast.stmt, frame: Frame) -> Left | None:
        self.step(stmt, frame)
        match stmt:
            case ast.Expr():
                self.value(stmt.value, frame)
            case ast.Assign():
                value = self.value(stmt.value, frame)
                for target in stmt.targets:
                    self.assign(target, value, frame)
            case ast.AnnAssign():
                if stmt.value is not None:
                    self.assign(stmt.target, self.value(stmt.value, frame), frame)
            case ast.AugAssign():
                self.augment(stmt, frame)
            case ast.Return():
                return Left("return", self.value(stmt.value, frame) if stmt.value else None)
            case ast.If():
                return self.branch(stmt, frame)
            case ast.For():
                return self.loop(stmt, frame)
            case ast.While():
                return self.repeat(stmt, frame)
            case ast.With():
                for item in stmt.items:
                    self.value(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, Unknown(place=self.place(stmt, frame)), frame)
                return self.block(stmt.body, frame)
            case ast.Try():
                return self.block([*stmt.body, *stmt.orelse, *stmt.finalbody], frame)
            case ast.Raise():
                text = ast.unparse(stmt.exc) if stmt.exc else "raise"
                kind, _, message = text.partition("(")
                raise Raised(kind, message.removesuffix(")").strip("'\""), self.place(stmt, frame))
            case ast.Assert():
                if self.truth(self.value(stmt.test, frame)) is False:
                    raise Raised("AssertionError", ast.unparse(stmt.test), self.place(stmt, frame))
            case ast.FunctionDef():
                self.trail.write(frame.env, stmt.name, Function(frame.module, stmt, frame.owner, frame))
            case ast.ImportFrom():
                for alias in stmt.names:
                    self.trail.write(frame.env, alias.asname or alias.name, frame.module.imported(stmt, alias.name))
            case ast.Break():
                return Left("break")
            case ast.Continue():
                return Left("continue")
            case ast.Pass() | ast.Import() | ast.Delete() | ast.Global():
                pass
            case _:
                raise Unread(self.place(stmt, frame), f"{type(stmt).__name__} is not read")
        return None

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            self.trail.write(frame.env, target.id, value)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.value(target.value, frame), target.attr, value, target, frame)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, frame)
        elif isinstance(target, ast.Subscript):
            held = self.value(target.value, frame)
            if isinstance(held, ListValue):
                self.set_item(held, self.value(target.slice, frame), value, target, frame)
        elif isinstance(target, ast.Starred):
            raise Unread(self.place(target, frame), "a starred target is not read")

    def unpack(self, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
        if isinstance(value, tuple | ListValue | range):
            members = self.items(value, target, frame)
            if len(members) != len(target.elts):
                raise Unread(self.place(target, frame), f"{len(members)} values for {len(target.elts)} names")
        else:
            members = tuple(value if isinstance(value, Unknown) else Unknown() for _ in target.elts)
        for part, member in zip(target.elts, members, strict=True):
            self.assign(part, member, frame)

    def set_item(self, held: ListValue, key: Value, value: Value, node: ast.AST, frame: Frame) -> None:
        items = list(self.items(held, node, frame))
        if not isinstance(key, int) or not -len(items) <= key < len(items):
            raise Unread(self.place(node, frame), "which member is set is not known")
        items[key] = value
        self.trail.write(held.cell, "items", tuple(items))

    def augment(self, stmt: ast.AugAssign, frame: Frame) -> None:
        load = ast.parse(ast.unparse(stmt.target), mode="eval").body
        for node in ast.walk(load):
            ast.copy_location(node, stmt.target)
        before, by = self.value(load, frame), self.value(stmt.value, frame)
        if isinstance(before, ListValue) and isinstance(stmt.op, ast.Add):
            added = (*self.items(before, stmt, frame), *self.items(by, stmt, frame))
            self.trail.write(before.cell, "items", added)
            return
        self.assign(stmt.target, self.arithmetic(stmt, before, by, frame), frame)

    def branch(self, stmt: ast.If, frame: Frame) -> Left | None:
        held = self.value(stmt.test, frame)
        truth = self.test(held)
        if truth is not None:
            if frame.role == "setter" and self.asks_for_ids(stmt.test, frame):
                self.prove(stmt, frame)
            if truth and isinstance(held, Flag):
                self.prove(stmt, frame)
            return self.block(stmt.body if truth else stmt.orelse, frame)
        place = self.place(stmt, frame)
        sides = self.trail.fork(
            lambda: (self.block(stmt.body, frame),), lambda: (self.block(stmt.orelse, frame),), place
        )
        lefts = [side[0] for side in sides if side is not None]
        if len(lefts) == 1:
            return lefts[0]
        first, second = lefts
        if first is None and second is None:
            return None
        if first is not None and second is not None and first.how == second.how:
            return Left(first.how, join(first.value, second.value, place))
        if frame.role == "init":
            return None
        raise Unread(place, f"whether {ast.unparse(stmt.test)[:60]} holds is not known from the source")

    def asks_for_ids(self, test: ast.expr, frame: Frame) -> bool:
        """Whether a condition looks at the ids."""
        return any(frame.lookup(n)[1] is None or isinstance(frame.lookup(n)[1], ListValue) for n in names_in(test))

    def loop(self, stmt: ast.For, frame: Frame) -> Left | None:
        source = self.value(stmt.iter, frame)
        if isinstance(source, Unknown):
            self.maybe(stmt, source, frame)
            return None
        items = self.items(source, stmt.iter, frame)
        if isinstance(source, ListValue) and not source.ordered and not self.marks_only(stmt):
            raise Unread(self.place(stmt, frame), "the order of a set is not known")
        for item in items:
            self.assign(stmt.target, item, frame)
            left = self.block(stmt.body, frame)
            if left is not None and left.how == "return":
                return left
            if left is not None and left.how == "break":
                return None
        return self.block(stmt.orelse, frame)

    def marks_only(self, stmt: ast.For) -> bool:
        """A loop whose order does not matter: it only marks layers."""
        return all(isinstance(s, ast.Expr | ast.If | ast.Assign) for s in stmt.body) and not any(
            isinstance(n, ast.Attribute) and n.attr in ("append", "insert", "extend") for n in ast.walk(stmt)
        )

    def maybe(self, stmt: ast.For, source: Unknown, frame: Frame) -> None:
        """A loop over something unknown: not at all, or once, which must come to the same for what matters."""

        def once() -> Left | None:
            self.assign(stmt.target, Unknown(place=self.place(stmt, frame), path=source.path), frame)
            return self.block(stmt.body, frame)

        self.trail.fork(once, lambda: None, self.place(stmt, frame))

    def repeat(self, stmt: ast.While, frame: Frame) -> Left | None:
        while True:
            truth = self.test(self.value(stmt.test, frame))
            if truth is None:
                raise Unread(self.place(stmt, frame), f"{ast.unparse(stmt.test)[:60]} is not known")
            if not truth:
                return self.block(stmt.orelse, frame)
            left = self.block(stmt.body, frame)
            if left is not None and left.how == "return":
                return left
            if left is not None and left.how == "break":
                return None
