"""Classes of the source: bases across files, method resolution order, where a method or attribute is defined."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeVar

from helpers.source.setter.tree import Module
from helpers.source.setter.values import ClassRef, Function, ModuleRef, Unknown, Unread, Value

T = TypeVar("T")
# Bases outside the engine that bring no setter of their own.
PLAIN = ("torch", "transformers", "typing", "abc", "nn", "ABC", "object", "Generic", "enum", "Protocol")


def base_of(module: Module, node: ast.expr) -> Value:
    """What a base class expression stands for."""
    if isinstance(node, ast.Subscript):
        return base_of(module, node.value)
    if isinstance(node, ast.Name):
        if node.id not in module.bindings:
            return Unknown(path=node.id)
        value = module.resolve(node.id)
        return base_of(module, value) if isinstance(value, ast.Name) else value
    if isinstance(node, ast.Attribute):
        inner = base_of(module, node.value)
        if isinstance(inner, ModuleRef) and node.attr in inner.module.bindings:
            return inner.module.resolve(node.attr)
    return Unknown(path=ast.unparse(node))


def once(cls: ClassRef, key: tuple[object, ...], find: Callable[[], T]) -> T:
    """What `find` says, asked once for each class."""
    memo = cls.module.tree.memo
    full = (id(cls.node), *key)
    if full not in memo:
        memo[full] = find()
    return memo[full]  # type: ignore[no-any-return]


def mro(cls: ClassRef) -> tuple[ClassRef, ...]:
    """The order in which Python looks for a method, as far as the classes are in this source."""
    return once(cls, ("mro",), lambda: _mro(cls))


def _mro(cls: ClassRef) -> tuple[ClassRef, ...]:
    sequences = [list(mro(b)) for b in bases(cls)] + [list(bases(cls))]
    order = [cls]
    while any(sequences):
        heads = [s[0] for s in sequences if s]
        head = next((h for h in heads if not any(h in s[1:] for s in sequences)), None)
        if head is None:
            raise Unread(cls.module.at(cls.node.lineno), f"the bases of {cls.name} have no consistent order")
        order.append(head)
        sequences = [[c for c in s if c != head] for s in sequences]
    return tuple(order)


def bases(cls: ClassRef) -> list[ClassRef]:
    found = (base_of(cls.module, b) for b in cls.node.bases)
    return [b for b in found if isinstance(b, ClassRef) and b.node is not cls.node]


def foreign_bases(cls: ClassRef) -> Iterator[str]:
    """Bases that are neither in this source nor known to bring nothing: a setter could be inherited from them."""
    for each in mro(cls):
        for node in each.node.bases:
            if not isinstance(base_of(each.module, node), ClassRef):
                text = ast.unparse(node)
                origin = each.module.bindings.get(text.split(".")[0].split("[")[0], [])
                modules = [s.module or "" for s in origin if isinstance(s, ast.ImportFrom)]
                if not text.startswith(PLAIN) and not any(m.split(".")[0] in PLAIN for m in modules):
                    yield f"{each.name}({text})"


def method(cls: ClassRef, name: str, after: ClassRef | None = None) -> Function | None:
    """A method, its own or inherited; with `after`, as `super()` in that class finds it."""
    return once(cls, ("method", name, id(after.node) if after else 0), lambda: _method(cls, name, after))


def _method(cls: ClassRef, name: str, after: ClassRef | None) -> Function | None:
    order = mro(cls)
    if after is not None and after in order:
        order = order[order.index(after) + 1 :]
    for each in order:
        for stmt in each.node.body:
            if isinstance(stmt, ast.FunctionDef) and stmt.name == name:
                return Function(each.module, stmt, each)
    return None


def class_attribute(cls: ClassRef, name: str) -> tuple[ClassRef, ast.expr] | None:
    """The expression assigned to a name in the class body, its own or inherited."""
    for each in mro(cls):
        for stmt in each.node.body:
            if isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in stmt.targets):
                return each, stmt.value
            if isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name) and stmt.target.id == name:
                return (each, stmt.value) if stmt.value is not None else None
    return None


def is_property(function: Function) -> bool:
    node = function.node
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d).split(".")[-1] in ("property", "cached_property") for d in node.decorator_list
    )


def is_static(function: Function) -> bool:
    node = function.node
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)


def sets_attribute(cls: ClassRef, name: str) -> bool:
    """Whether any method of the class, or of its bases, assigns that attribute to something."""
    return any(name in once(each, ("stores",), lambda each=each: _stores(each)) for each in mro(cls))  # type: ignore[misc]


def _stores(cls: ClassRef) -> frozenset[str]:
    nodes = (n for n in ast.walk(cls.node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return frozenset(n.attr for n in nodes)


def adds_nothing(cls: ClassRef, base: ClassRef) -> bool:
    """A class that is its base under another name."""
    return bases(cls) == [base] and all(
        isinstance(s, ast.Pass | ast.Assign) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in cls.node.body
    )
