"""What is asked of a box and what it answered: the border between the asking and the pure parsers."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.box.quoting import quote
from helpers.box.result import printable
from helpers.errors import RemoteFailed

MISSING = 127
TIMEOUT = 20.0
SHOWN = 160  # characters of a line that an error shows


class Fact(BaseModel):
    """Base of all facts: frozen, and no key passes unnoticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Absent(Fact):
    """What was asked for is not there; an answer, not an error. ``absent`` says what is missing, in words."""

    absent: str


@dataclass(frozen=True)
class Question:
    """One read-only question.

    Attributes:
        name: of the fact.
        commands: argument lists, alternatives: the first that succeeds answers.
        env: changes to the session's environment; None takes a variable out.
        cwd: where it runs; the home by default.
        timeout: seconds for all of them.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    env: Mapping[str, str | None] | None = None
    cwd: str | None = None
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Answer:
    """What one command said.

    Attributes:
        argv: the alternative that answered. exit_status: 127 where there is no such program, 128 + n after signal n.
        lines, errors: of stdout and stderr, without their newlines.
        seconds: wall-clock time. timed_out: it was ended, and what it said may be cut short.
    """

    argv: tuple[str, ...]
    lines: tuple[str, ...]
    errors: tuple[str, ...] = ()
    exit_status: int = 0
    seconds: float = 0.0
    timed_out: bool = False

    @property
    def program(self) -> str:
        return posixpath.basename(self.argv[0])

    @property
    def said(self) -> tuple[str, ...]:
        """stdout, or where that is empty stderr; blank lines left out."""
        return tuple(line for line in self.lines if line.strip()) or tuple(line for line in self.errors if line.strip())


def lines_of(text: str) -> tuple[str, ...]:
    """The lines of an output; only a newline ends one, and what a carriage return would hide stays in sight."""
    lines = printable(text).split("\n")
    return tuple(line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1]))


def loads(line: str) -> Any:
    """A line of JSON, its strings printable: a path may hold bytes that are no text.

    Raises:
        ValueError: it is none.
    """
    return _printable(json.loads(line))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return {key: _printable(item) for key, item in value.items()} if isinstance(value, dict) else value


def absent_program(fact: str, answer: Answer) -> Absent | None:
    """The first look at any answer.

    Returns:
        Absent where the box has no such program, else None.

    Raises:
        RemoteFailed: WB-FACT-TIMEOUT.
    """
    if answer.timed_out:
        raise RemoteFailed(
            "WB-FACT-TIMEOUT",
            f"{fact}: {answer.program!r} gave no answer within {answer.seconds:.0f} s",
            expected="an answer within seconds",
            next=f"workbook run BOX -- {' '.join(answer.argv[:1])}; where it hangs too, its device or file system does",
            lines=shown(answer.said[-5:]),
        )
    return Absent(absent=f"no {answer.argv[0]} on the box") if answer.exit_status == MISSING else None


def unreadable(fact: str, answer: Answer, number: int, expected: str) -> RemoteFailed:
    """A line that the parser does not understand; ``number`` counts from 1, one past the end for a missing line."""
    line = answer.lines[number - 1] if number <= len(answer.lines) else None
    met = "the output ends" if line is None else repr(shown([line])[0])
    return RemoteFailed(
        "WB-FACT-UNREADABLE",
        f"{fact}: line {number} of {answer.program!r} cannot be read: {met}",
        expected=expected,
        next="run it by hand and look: " + by_hand(answer),
        lines=shown(answer.lines[max(0, number - 3) : number + 1]),
    )


def failed(fact: str, answer: Answer, expected: str) -> RemoteFailed:
    """A program that is there, and failed."""
    return RemoteFailed(
        "WB-FACT-FAILED",
        f"{fact}: {answer.program!r} ended with exit status {answer.exit_status}",
        expected=expected,
        next="run it by hand and look: " + by_hand(answer),
        lines=shown((answer.errors or answer.lines)[-5:]),
    )


def by_hand(answer: Answer) -> str:
    """The command that shows the same to a person."""
    return f"workbook run BOX -- {as_text(answer)}"


def as_text(answer: Answer) -> str:
    """Its command as text; a script is left out."""
    return " ".join("..." if "\n" in word else quote(word) for word in answer.argv)


def shown(lines: list[str] | tuple[str, ...]) -> list[str]:
    """Lines as an error may show them: printable, not endless."""
    texts = [re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "?", printable(line)) for line in lines]
    return [text if len(text) <= SHOWN else text[:SHOWN] + " ..." for text in texts]
