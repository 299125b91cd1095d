"""A condition of the source under what is known of a launch: true, false, or not known. Nothing is run.

>>> node = ast.parse("arch in ['A', 'B'] and chip()", mode="eval").body
>>> evaluate(node, {"arch": "C"}), evaluate(node, {"arch": "A"}), evaluate(node, {"arch": "A", "chip()": True})
(False, UNKNOWN, True)
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


class _Unknown:
    """The value of what is not known."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("what is not known is neither true nor false")


UNKNOWN = _Unknown()


def evaluate(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of ``node``.

    Args:
        known: values of names, attributes and calls by their text, as ``self.nnodes`` or ``is_sm90_supported()``.
    """
    text = ast.unparse(node)
    if text in known:
        return known[text]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = [evaluate(item, known) for item in node.elts]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = evaluate(node.operand, known)
        return UNKNOWN if value is UNKNOWN else not value
    if isinstance(node, ast.BoolOp):
        return _joined(node, known)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node.ops[0], evaluate(node.left, known), evaluate(node.comparators[0], known))
    return UNKNOWN


def unknown_terms(node: ast.expr, known: Mapping[str, Any]) -> list[str]:
    """The terms of a conjunction that are not known, as text."""
    terms = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
    return [ast.unparse(term) for term in terms if evaluate(term, known) is UNKNOWN]


def _joined(node: ast.BoolOp, known: Mapping[str, Any]) -> Any:
    """`and` and `or`, where one false or true term decides whatever the unknown ones are."""
    decides = isinstance(node.op, ast.Or)
    values = [evaluate(term, known) for term in node.values]
    if any(value is not UNKNOWN and bool(value) == decides for value in values):
        return decides
    return UNKNOWN if any(value is UNKNOWN for value in values) else not decides


def _compared(operator: ast.cmpop, left: Any, right: Any) -> Any:
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    try:
        if isinstance(operator, ast.In | ast.NotIn):
            return (left in right) == isinstance(operator, ast.In)
        if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return (left == right) == isinstance(operator, ast.Eq | ast.Is)
        order = {ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__"}[type(operator)]
        answer = getattr(left, order)(right)
    except (TypeError, KeyError, AttributeError):
        return UNKNOWN
    return UNKNOWN if answer is NotImplemented else answer
