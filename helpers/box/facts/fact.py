"""What all facts share: one read-only command each, and a pure parser that says which line it could not read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from helpers.errors import RemoteFailed

_SECTION = re.compile(r"^== (\w+)(?: (.*))?$")


class Model(BaseModel):
    """A fact, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Fact:
    """One question to a box.

    Attributes:
        name: of the fact. command: arguments that change nothing on the box. parse: from what it printed on stdout.
    """

    name: str
    command: tuple[str, ...]
    parse: Callable[[str], Model]


def shell(script: str) -> tuple[str, ...]:
    """A command of several steps, run by the box's /bin/sh."""
    return ("/bin/sh", "-c", script.strip())


@dataclass(frozen=True)
class Section:
    """A part of an answer that begins with ``== name rest``; ``lines`` with their numbers in the whole."""

    name: str
    rest: str
    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)


def sections(fact: str, text: str) -> dict[str, Section]:
    """The sections of an answer, by name.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE where something stands before the first.
    """
    found: dict[str, Section] = {}
    name, rest, lines = "", "", list[tuple[int, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        match = _SECTION.match(line)
        if match:
            if name:
                found[name] = Section(name, rest, tuple(lines))
            name, rest, lines = match[1], match[2] or "", []
        elif not name:
            raise unreadable(fact, number, line, "a line that starts a section")
        else:
            lines.append((number, line))
    if name:
        found[name] = Section(name, rest, tuple(lines))
    return found


def section(fact: str, found: dict[str, Section], name: str) -> Section:
    """The section ``name``.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE where the answer ends before it.
    """
    if name not in found:
        last = [line for part in found.values() for line in part.lines][-1:]
        number, line = last[0] if last else (0, "")
        raise unreadable(fact, number, line, f"a section {name}")
    return found[name]


def unreadable(fact: str, number: int, line: str, expected: str) -> RemoteFailed:
    """The error for an answer that is not what the command prints."""
    return RemoteFailed(
        "WB-FACT-UNREADABLE",
        f"line {number} of the answer about {fact} cannot be read: {line!r}",
        expected=expected,
        next="run the command by hand: workbook facts BOX --raw " + fact,
    )
