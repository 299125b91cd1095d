"""Which SGLang a box's interpreter imports, asked in the same trip as other facts; and which one a running server does.

A server is asked through its own interpreter, with its flags, its folder and its PYTHONPATH, as it was started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, loads, unreadable
from helpers.box.facts.servers import Server
from helpers.box.result import printable
from helpers.source.checkout import ASK
from helpers.source.whose import DECIDES

FACT = "engine"


class Engine(Fact):
    """A checkout of SGLang.

    Attributes:
        package: the folder of the package ``sglang``. version: as its own files say, None where they do not.
        python, python_version: the interpreter that imports it.
    """

    package: str
    version: str | None
    python: str
    python_version: str


def question(
    python: str,
    *,
    name: str = FACT,
    flags: Sequence[str] = (),
    first: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
) -> Question:
    """The question to an interpreter; ``first`` is what it puts before its search path."""
    return Question(name, ((python, *flags, "-c", ASK, *first),), env=env, cwd=cwd)


def parse(answer: Answer) -> Engine | Absent:
    """Read its answer.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    if answer.exit_status:
        raise failed(FACT, answer, "a Python interpreter")
    try:
        said = loads(answer.lines[-1])
        if said["package"] is None:
            return Absent(absent=f"{said['python']} finds no package sglang")
        return Engine.model_validate(said)
    except (IndexError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise unreadable(FACT, answer, max(len(answer.lines), 1), "one JSON object about the checkout") from error


def surroundings(server: Server) -> dict[str, str | None]:
    """The part of a server's environment that decides what it imports, as changes to a session's."""
    env = server.process.env or {}
    return {name: env.get(name) for name in DECIDES}  # what it did not have, its question has not either


def unasked(server: Server) -> Absent | None:
    """Why a server's interpreter is not asked, None when it can be.

    Somebody else's interpreter would run somebody else's code with this login's rights.
    """
    process = server.process
    if process.container is not None or process.same_root is False:  # also where it is another login's, such as root's
        which = f" ({printable(process.container)})" if process.container else ""
        return Absent(
            absent=f"it runs in a container{which}, whose files this login does not see: take an SSH server inside "
            "that container as the BOX (README, Docker)"
        )
    if not process.mine:
        return Absent(
            absent=f"it is {process.user}'s: connect as {process.user}, or name the interpreter with --python"
        )
    if process.interpreter is None or process.env is None:
        return Absent(absent="this login may not look into the process")
    return None
