"""Errors as part of the product: what failed, the value met, what was expected, what to do next, and a code.

Every code has a page in docs/errors/<CODE>.md (a test holds the two together). One class per recovery, not per module:
the class decides the exit code of design.md.
"""

from __future__ import annotations

from typing import Any, ClassVar

from helpers.paths import error_page
from helpers.screen import visible


class WorkbookError(Exception):
    """A failure that the user can act on.

    Args:
        code: such as ``WB-DUMP-TRUNCATED``; the name of the page in docs/errors/.
        message: what failed, with the value that was met.
        expected: what would have been right.
        next: the next thing to do, a command where there is one.
        lines: evidence to show below, such as the last lines of a server's log.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self, code: str, message: str, *, expected: str = "", next: str = "", lines: list[str] | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.expected = expected
        self.next = next
        self.lines = list(lines or [])

    def __str__(self) -> str:
        """For people: a name that somebody chose stays on its line, and no log paints the terminal."""
        parts = [f"{self.code}: {visible(self.message)}"]
        if self.expected:
            parts.append(f"  expected: {visible(self.expected)}")
        parts.extend(f"  | {visible(line)}" for given in self.lines for line in given.split("\n"))
        if self.next:
            parts.append(f"  next: {visible(self.next)}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook in place of a traceback: the message is for the user, the stack is not."""
        return [*str(self).splitlines(), f"  page: {error_page(self.code)}"]

    def to_json(self) -> dict[str, Any]:
        """The object that a command prints with --json (design.md)."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "expected": self.expected,
            "next": self.next,
        }
        if self.lines:
            error["lines"] = self.lines
        return {"error": error}


class UsageError(WorkbookError):
    """Bad usage or bad input: nothing was done (exit 2)."""

    exit_code = 2


class BoxUnreachable(WorkbookError):
    """The box is out of reach: network, key, host key, or a lab that is not up (exit 3)."""

    exit_code = 3


class RemoteFailed(WorkbookError):
    """The box answered, and the action there failed (exit 4)."""

    exit_code = 4


class WrongResult(WorkbookError):
    """The work was done, and what came of it is wrong (exit 1)."""

    exit_code = 1
