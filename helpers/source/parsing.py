"""Syntax trees of the engine's files, parsed once for all that read them."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=96)
def parsed(text: str) -> ast.Module:
    """The tree of a text; nobody changes it.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    return ast.parse(text)
