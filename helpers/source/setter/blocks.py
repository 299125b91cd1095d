"""Blocks of statements, as the reader takes them."""

from __future__ import annotations

import ast


def with_rest(body: list[ast.stmt]) -> list[ast.stmt]:
    """A block in which what follows `if ...: return` is its `else`: both ways are read to their end, then joined."""
    for i, stmt in enumerate(body[:-1]):
        if isinstance(stmt, ast.If) and isinstance(stmt.body[-1], ast.Return) and not leaves(stmt.orelse):
            rest = ast.If(stmt.test, stmt.body, [*stmt.orelse, *body[i + 1 :]])
            return [*body[:i], ast.copy_location(rest, stmt)]
    return body


def leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Break | ast.Continue)
