"""The checkout that a box serves from: that of its running server, as its own interpreter and environment find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.box.facts import servers
from helpers.box.facts.answer import Absent
from helpers.box.facts.asking import ask
from helpers.box.facts.servers import Server, Servers
from helpers.box_python import another, chosen
from helpers.errors import RemoteFailed, UsageError
from helpers.source import served
from helpers.source.checkout import Checkout, find_checkout
from helpers.source.served import Engine

if TYPE_CHECKING:
    from helpers.box import Box


def served_checkout(box: Box, python: str | None = None) -> Checkout:
    """The checkout that the box's running server imports.

    Args:
        python: ask this interpreter instead; with no server running and none given, it is python3.

    Raises:
        UsageError: WB-SOURCE-SEVERAL, where servers import different ones. RemoteFailed: as `find_checkout`.
    """
    if python is not None:
        return find_checkout(box, python)
    found = {
        engine.package: Checkout(engine.package, engine.version, engine.python, engine.python_version)
        for _, engine in engines(box)
    }
    if len(found) > 1:
        raise UsageError(
            "WB-SOURCE-SEVERAL",
            f"servers on {box.name} import sglang from different places: " + ", ".join(sorted(found)),
            expected="one checkout, or a word on which is meant",
            next="name the interpreter (--python), or the file by its absolute path with --python python3",
        )
    return next(iter(found.values())) if found else find_checkout(box)


def importing(box: Box, checkout: Checkout) -> tuple[int, ...]:
    """The servers that run and import SGLang from this checkout."""
    return tuple(pid for pid, engine in engines(box) if engine.package == checkout.package)


def engines(box: Box) -> list[tuple[int, Engine]]:
    """pid and checkout of the servers of this login on this box, as far as they can be asked."""
    told = _servers(box, chosen(box))
    ours = [server for server in told.servers if _is_ours(box, server)] if isinstance(told, Servers) else []
    questions = [
        served.question(
            server.process.interpreter or "python3",
            name=str(server.process.pid),
            flags=server.launched.flags,
            first=server.launched.first(server.process.cwd),
            env=served.surroundings(server),
            cwd=server.process.cwd,
        )
        for server in ours
    ]
    answers = ask(box, questions, progress=False) if questions else {}
    found = ((int(pid), served.parse(answer)) for pid, answer in answers.items())
    return [(pid, engine) for pid, engine in found if isinstance(engine, Engine)]


def _servers(box: Box, python: str) -> Servers | Absent:
    """What runs, asked by this interpreter, or by another one of the box where it cannot."""
    try:
        told = servers.parse(ask(box, [servers.question(python)], pythons=(python,), progress=False)[servers.FACT])
    except RemoteFailed:
        other = another(box, python)
        if other is None:
            raise
        return _servers(box, other)
    if isinstance(told, Servers):
        return told
    other = another(box, python)
    return told if other is None else _servers(box, other)


def _is_ours(box: Box, server: Server) -> bool:
    """Whether it can be asked, and is of this box: the same user with another HOME is another box on this machine (a
    second lab)."""
    home = (server.process.env or {}).get("HOME", box.home)
    return served.unasked(server) is None and home == box.home
