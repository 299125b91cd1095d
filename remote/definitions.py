"""Where a name of SGLang is defined, by AST, without importing anything: ``python3 -m remote.definitions find``.

A text search comes first, so that only files that may hold it are parsed. Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any


def find(request: dict[str, Any]) -> dict[str, Any]:
    """Definitions of ``name`` (``f``, ``Class.method``, ``self.x`` as ``x``) below ``root``, in its folder ``below``.

    Returns ``{"sites": [{file, line, end, kind, qualname, text, sha256}], "files": n, "unread": [file, ...]}``, files
    relative to ``root``; ``unread`` are those that hold the name and are no Python that this interpreter parses.
    """
    root, wanted = request["root"], request["name"].split(".")
    word = re.escape(wanted[-1].encode())
    hint = re.compile(rb"\b(def|class)[ \t\\]+" + word + rb"\b|\b" + word + rb"\b[^\n]*?[:=]|" + word + rb"[ \t]*,")
    sites: list[dict[str, Any]] = []
    unread: list[str] = []
    count = 0
    for path in _python_files(os.path.join(root, request.get("below", "sglang"))):
        count += 1
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            unread.append(os.path.relpath(path, root))
            continue
        if not hint.search(data) or any(part.encode() not in data for part in wanted):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(data)
        except (SyntaxError, ValueError):
            unread.append(os.path.relpath(path, root))
            continue
        lines = data.decode("utf-8", "replace").split("\n")
        digest = hashlib.sha256(data).hexdigest()
        for kind, qualname, node in _definitions(tree, wanted[-1]):
            if qualname[-len(wanted) :] == tuple(wanted):
                site = {"file": os.path.relpath(path, root), "line": node.lineno, "end": node.end_lineno, "kind": kind}
                text = lines[node.lineno - 1].rstrip("\r")
                sites.append({**site, "qualname": ".".join(qualname), "text": text, "sha256": digest})
    return {"sites": sites, "files": count, "unread": unread}


def _python_files(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(here, name)


def _definitions(
    node: ast.AST, name: str, scope: tuple[str, ...] = (), inside: str = "module", owner: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """(kind, qualified name, node) of what defines ``name`` below ``node``, in the order of the text.

    ``inside`` says in what ``node`` stands, ``owner`` names the innermost class: what a method sets on self is its.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            is_class = isinstance(child, ast.ClassDef)
            below = (*scope, child.name)
            if child.name == name:
                yield "class" if is_class else "method" if inside == "class" else "function", below, child
            yield from _definitions(
                child, name, below, "class" if is_class else "function", below if is_class else owner
            )
            continue
        if isinstance(child, (ast.Assign, ast.AnnAssign)):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for target in (leaf for one in targets for leaf in _leaves(one)):
                if isinstance(target, ast.Name) and target.id == name and inside != "function":
                    yield "variable", (*scope, name), child
                elif _is_own(target, name):
                    yield "attribute", (*owner, name), child
        yield from _definitions(child, name, scope, inside, owner)


def _leaves(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _leaves(item)
    else:
        yield target


def _is_own(target: ast.expr, name: str) -> bool:
    if not (isinstance(target, ast.Attribute) and target.attr == name):
        return False
    return isinstance(target.value, ast.Name) and target.value.id == "self"


if __name__ == "__main__":
    print(json.dumps(find(json.load(sys.stdin))))
