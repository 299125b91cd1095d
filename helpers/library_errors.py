"""What libraries say of a failure, in words for people: no error number, no path twice, no class of Python's."""

from __future__ import annotations

import re
from typing import Any


def why(error: Exception) -> str:
    """What an error says, without what the message around it has already.

    >>> why(FileNotFoundError(2, "No such file or directory", "my.toml")), why(ValueError("line 3"))
    ('No such file or directory', 'line 3')
    """
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__


def problem_said(problem: Any) -> str:
    """One problem of pydantic's (``ValidationError.errors()``), without pydantic's own manner.

    >>> problem_said({"msg": "Input is not a valid path for <class 'pathlib.Path'>"})
    'Input is not a valid path'
    """
    said = str(problem["msg"]).removeprefix("Value error, ")
    return re.sub(r" for <class '[^']*'>", "", said)
