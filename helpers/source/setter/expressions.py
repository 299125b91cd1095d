"""Expressions of the engine's code, valued without running it."""

from __future__ import annotations

import ast
from abc import abstractmethod

from helpers.source.setter.operators import Operators
from helpers.source.setter.trail import join
from helpers.source.setter.values import (
    UNKNOWN,
    Choice,
    ClassRef,
    Flag,
    Frame,
    Function,
    Id,
    ListValue,
    Obj,
    Raised,
    Unknown,
    Unread,
    Value,
    dotted,
    new_list,
    origins_of,
)


class Expressions(Operators):
    """Valuing of expressions; calls are left to the layer above."""

    @abstractmethod
    def call(self, node: ast.Call, frame: Frame) -> Value:
        """The value of a call."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Binds a target: a name, an attribute, a tuple of them."""

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """The value of an expression.

        Raises:
            Unread: it is needed, and the source alone does not say.
            Raised: the engine's code would raise.
        """
        self.step(node, frame)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.name(node, frame)
            case ast.Attribute():
                return self.attribute(self.value(node.value, frame), node.attr, node, frame)
            case ast.Call():
                return self.call(node, frame)
            case ast.Tuple():
                return self.members(node.elts, frame)
            case ast.List():
                return new_list(self.members(node.elts, frame), site=node)
            case ast.Set():
                return self.make_set(self.members(node.elts, frame), node)
            case ast.Dict():
                return self.dictionary(node, frame)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self.comprehension(node, frame)
            case ast.BinOp():
                return self.arithmetic(node, self.value(node.left, frame), self.value(node.right, frame), frame)
            case ast.UnaryOp():
                return self.unary(node, frame)
            case ast.Compare():
                return self.comparison(node, frame)
            case ast.BoolOp():
                return self.boolean(node, frame)
            case ast.IfExp():
                return self.either(node.test, node.body, node.orelse, frame)
            case ast.Subscript():
                return self.subscript(node, frame)
            case ast.Lambda():
                return Function(frame.module, node, frame.owner, frame)
            case ast.NamedExpr():
                bound = self.value(node.value, frame)
                self.assign(node.target, bound, frame)
                return bound
            case ast.Starred():
                return self.value(node.value, frame)
            case _:
                return Unknown(f"{type(node).__name__} is not read", self.place(node, frame))

    def members(self, nodes: list[ast.expr], frame: Frame) -> tuple[Value, ...]:
        found: list[Value] = []
        for node in nodes:
            value = self.value(node, frame)
            found.extend(self.items(value, node, frame) if isinstance(node, ast.Starred) else [value])
        return tuple(found)

    def dictionary(self, node: ast.Dict, frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name = self.value(key, frame) if key is not None else None
            if not isinstance(name, str | int):
                return Unknown("the keys of this dictionary are not known", self.place(node, frame))
            made[name] = self.value(item, frame)
        return made

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: Frame) -> Value:
        inner = Frame(frame.module, {}, frame.role, frame, frame.owner, frame.this)
        found: list[Value] = []
        ordered = [True]

        def run(generators: list[ast.comprehension]) -> None:
            if not generators:
                found.append(self.value(node.elt, inner))
                return
            first, *rest = generators
            source = self.value(first.iter, inner)
            if isinstance(source, ListValue) and not source.ordered:
                ordered[0] = False
            for item in self.items(source, first.iter, inner):
                self.assign(first.target, item, inner)
                tests = [self.test(self.value(condition, inner)) for condition in first.ifs]
                if None in tests:
                    raise Unread(self.place(node, frame), f"{ast.unparse(first.ifs[tests.index(None)])} is not known")
                if all(tests):
                    run(rest)

        run(node.generators)
        if isinstance(node, ast.SetComp):
            return self.make_set(tuple(found), node)
        return new_list(tuple(found), ordered=ordered[0], site=node)

    def unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            if truth is None:
                return Unknown(UNKNOWN, self.place(node, frame))
            return Flag(not truth, value.origins) if isinstance(value, Flag) else not truth
        if isinstance(value, int | float) and isinstance(node.op, ast.USub | ast.UAdd):
            made = -value if isinstance(node.op, ast.USub) else +value
            return Id(int(made), value.origins) if isinstance(value, Id) else made
        return Unknown(UNKNOWN, self.place(node, frame))

    def comparison(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.value(node.left, frame)
        result: Value = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, frame)
            result = self.compare(op, left, right, node, frame)
            if self.truth(result) is not True:
                return result
            left = right
        return result

    def boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        stop = isinstance(node.op, ast.Or)
        unsure: list[Value] = []
        for part in node.values:
            value = self.value(part, frame)
            truth = self.truth(value)
            if truth == stop or part is node.values[-1]:
                if not unsure:
                    return value
                # One member decides the truth, whatever the unknown ones before it are.
                return stop if truth == stop else unsure[0]
            if truth is None:
                unsure.append(value)
        raise AssertionError("a boolean expression has members")

    def either(self, test: ast.expr, body: ast.expr, orelse: ast.expr, frame: Frame) -> Value:
        """The value of `body if test else orelse`, of both where the test is not known."""
        truth = self.test(self.value(test, frame))
        if truth is not None:
            if isinstance(test, ast.Compare) and truth and isinstance(test.ops[0], ast.In):
                self.prove(test, frame)
            return self.value(body if truth else orelse, frame)
        place = self.place(test, frame)
        sides = self.trail.fork(lambda: (self.value(body, frame),), lambda: (self.value(orelse, frame),), place)
        values = [side[0] for side in sides if side is not None]
        return values[0] if len(values) == 1 else join(values[0], values[1], place)

    def subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        held = self.value(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self.value(b, frame) if b else None for b in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if isinstance(held, ListValue | tuple | range) and all(b is None or isinstance(b, int) for b in bounds):
                cut = self.items(held, node, frame)[slice(*bounds)]
                return new_list(cut, site=node) if isinstance(held, ListValue) else cut
            return Unknown(UNKNOWN, self.place(node, frame))
        key = self.value(node.slice, frame)
        if isinstance(held, dict):
            if isinstance(key, str | int) and key in held:
                return held[key]
            options = tuple(held.values())
            if options and all(isinstance(o, ClassRef) for o in options):
                return options[0] if len(options) == 1 else Choice(options)
        if isinstance(held, ListValue | tuple | range) and isinstance(key, int):
            if isinstance(held, ListValue) and not held.ordered:
                raise Unread(self.place(node, frame), f"{dotted(node.value)} has the order of a set")
            members = self.items(held, node, frame)
            if not -len(members) <= key < len(members):
                message = f"index {int(key)} is out of range"
                raise Raised("IndexError", message, self.place(node, frame), origins_of(key))
            member = members[key]
            if isinstance(member, Obj) and member.layer is not None:
                self.trail.write(self.state, "indexed", origins_of(key))
            return member
        return Unknown(UNKNOWN, self.place(node, frame), dotted(node))
