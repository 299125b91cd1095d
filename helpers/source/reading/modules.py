"""A Python file of the tree, parsed; and the classes that a model's class is made of, across files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from helpers.source.excerpts import Line
from helpers.source.parsing import parsed
from helpers.source.tree import SourceTree

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
#: Attributes that hold the part of a model in which the layers are.
_INNER = ("model", "language_model", "transformer", "thinker")


@dataclass(frozen=True)
class Module:
    """A file and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, tree: SourceTree, path: str) -> Module | None:
        """The file at ``path``; None where it is missing or no Python."""
        text = tree.read(path)
        try:
            return None if text is None else cls(path, text, parsed(text))
        except (SyntaxError, ValueError):
            return None

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def line(self, node: ast.AST | int) -> Line:
        """The line on which ``node`` starts, as evidence."""
        number = node if isinstance(node, int) else int(getattr(node, "lineno", 1))
        return Line(self.path, number, self._lines[number - 1])

    def class_def(self, name: str) -> ast.ClassDef | None:
        """The class ``name``; the last one, where a file defines it twice (the later one is what a name means)."""
        found = [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        return found[-1] if found else None

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Local name -> (file, name there) of what comes from sglang."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sglang."):
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module.replace(".", "/") + ".py", alias.name)
        return found


@dataclass(frozen=True)
class ClassAt:
    """A class and the file that it stands in."""

    module: Module
    node: ast.ClassDef

    def method(self, name: str) -> FunctionNode | None:
        """Its own method ``name``, not an inherited one."""
        return next((node for node in functions(self.node.body) if node.name == name), None)


def model_classes(tree: SourceTree, architecture: str) -> list[ClassAt]:
    """The class ``architecture`` and all that it inherits from or holds as its model, nearest first; empty if none."""
    path = tree.find_class(architecture)
    module = Module.read(tree, path) if path else None
    if module is None:
        return []
    modules: dict[str, Module | None] = {module.path: module}
    wanted, found = [(module, architecture)], []
    seen: set[tuple[str, str]] = set()
    while wanted:
        here, name = wanted.pop(0)
        if (here.path, name) in seen:
            continue
        seen.add((here.path, name))
        node = here.class_def(name)
        if node is not None:
            found.append(ClassAt(here, node))
            wanted += [(here, part) for part in _parts(node)]
        elif name in here.imports:
            file, original = here.imports[name]
            if file not in modules:
                modules[file] = Module.read(tree, file)
            if (there := modules[file]) is not None:
                wanted.append((there, original))
    return found


def functions(body: list[ast.stmt]) -> Iterator[FunctionNode]:
    """The functions defined directly in ``body``."""
    return (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls(node: ast.AST, name: str) -> list[ast.Call]:
    """Calls below ``node`` of a function or method that is called ``name``, in the order of the text."""
    found = [call for call in ast.walk(node) if isinstance(call, ast.Call) and called(call) == name]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def called(call: ast.Call) -> str:
    """The last name of what is called: ``f`` of ``f()`` and of ``a.b.f()``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _parts(node: ast.ClassDef) -> list[str]:
    """Names of its bases, and of the classes that it makes for its inner model (in __init__, or in _init_model)."""
    names = [base.id for base in node.bases if isinstance(base, ast.Name)]
    for function in functions(node.body):
        for inner in ast.walk(function):
            made = None
            if function.name == "__init__" and isinstance(inner, ast.Assign):
                targets = [t for t in inner.targets if isinstance(t, ast.Attribute) and t.attr in _INNER]
                made = inner.value if targets else None
            elif function.name.startswith("_init_model") and isinstance(inner, ast.Return):
                made = inner.value
            if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
                names.append(made.func.id)
    return names
