"""The lab's errors, in the form that `python -m remote.lab --json` prints."""

from __future__ import annotations

from typing import Any

WORKBOOK = ".venv/bin/workbook"
USAGE, UNREACHABLE, FAILED, INTERRUPTED = 2, 3, 4, 130


class LabError(Exception):
    """A failure that the user can act on.

    Fields:
        code: WB-LAB-...; the name of its page in docs/errors/.
        message: what failed, with the value that was met.
        expected: what would have been right.
        next: the next thing to do, a command where there is one.
        exit_code: 2 bad usage, 3 the lab is out of reach, 4 it could not be started or stopped.
    """

    def __init__(self, code: str, message: str, *, expected: str, next: str, exit_code: int) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.expected = expected
        self.next = next
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.code}: {self.message}\n  expected: {self.expected}\n  next: {self.next}"

    def to_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "expected": self.expected, "next": self.next}}
