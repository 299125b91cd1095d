"""What the argument parser refuses, as an error like all others: the value met, what was expected, what to type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from typer.exceptions import TyperException

from helpers.errors import UsageError
from helpers.library_errors import problem_said
from helpers.nearest import did_you_mean

_NUMBERS = {int: "a whole number", float: "a number", bool: "true or false"}


def refused(error: TyperException) -> UsageError:
    """The parser's own complaint, in the form of all other errors."""
    context = getattr(error, "ctx", None)
    command = str(context.command_path) if context is not None else "workbook"
    usage = str(context.get_usage()).removeprefix("Usage: ").strip() if context is not None else "see workbook --help"
    message, wanted = _said(error)
    meant = did_you_mean(*choices(message), f"{command} --help")
    return UsageError("WB-USAGE", message, expected=wanted or usage, next=meant)


def _said(error: TyperException) -> tuple[str, str]:
    """The message with the value in it, and what would have been right; "" where only the usage tells that."""
    message = error.format_message()
    problem = _problem(error.__cause__)
    if problem is None:
        return message, ""
    head = message.removesuffix(str(error.message))
    if wanted := wanted_number(error):
        return f"{head}{problem['input']!r} is not {wanted}", wanted
    told, given = problem_said(problem), repr(problem["input"])
    known = choices(told)[1]
    return (head + told if given in told else f"{head}{given}: {told}"), f"one of {', '.join(known)}" if known else ""


def _problem(cause: object) -> Mapping[str, Any] | None:
    """The first problem that pydantic met; of a list that of its element. None where it was not pydantic."""
    from pydantic import ValidationError  # here: no command needs it before something is refused

    if not isinstance(cause, ValidationError):
        return None
    problem = cause.errors()[0]
    return _problem(problem.get("ctx", {}).get("error")) or problem


def wanted_number(error: TyperException) -> str:
    """What a number of the parameter may be, in words; "" where it is none."""
    about = getattr(getattr(error, "param", None), "type_descriptor", None)
    if about is None:
        return ""
    kind, limits = about.annotation, about.parameter_info
    kind = next(iter(get_args(kind)), kind)  # of a list its elements'
    return f"{_NUMBERS[kind]}{span(limits.min, limits.max)}" if kind in _NUMBERS else ""


def span(low: float | None, high: float | None) -> str:
    """The limits of a number, as they follow its kind.

    >>> span(1, 64), span(0, None), span(None, 1), span(None, None)
    (' from 1 to 64', ' of 0 or more', ' of 1 at most', '')
    """
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" of {low} or more" if low is not None else f" of {high} at most" if high is not None else ""


def choices(message: str) -> tuple[str, list[str]]:
    """The word that was given and those that there are, where the parser's complaint tells them.

    >>> choices("Invalid value for 'action': 'aply' is not one of 'plan', 'apply'.")
    ('aply', ['plan', 'apply'])
    """
    told = re.search(r"'([^']*)' is not one of ('[^']*'(?:, '[^']*')*)", message)
    return (told[1], re.findall(r"'([^']*)'", told[2])) if told else ("", [])
