"""Whose a running server is, as far as this box tells, and which of several a look at the box is about. Pure.

One machine can be several boxes: the same login with another HOME is a second lab, or a container's neighbour.
"""

from __future__ import annotations

from typing import Literal

from helpers.box.facts.answer import Fact
from helpers.box.facts.servers import Server

Kind = Literal["you", "colleague", "login", "elsewhere", "user"]


class Whose(Fact):
    """Whose server it is.

    Attributes:
        kind: ``you`` and ``colleague`` started it from a workbook; ``login``: it is of this login and home, and no
            workbook's; ``elsewhere``: of this login in another home, so another box; ``user``: another login's.
        words: the same for people.
    """

    kind: Kind
    words: str

    @property
    def here(self) -> bool:
        """It is this box's, so that what it imports is what this box serves."""
        return self.kind in ("you", "colleague", "login")


def whose(server: Server, owner: str | None, *, me: str, home: str) -> Whose:
    """Whose ``server`` is.

    Args:
        owner: of the run that it is, None for no run of this box. me: who asks. home: the box's.
    """
    process = server.process
    if owner is not None:
        return Whose(kind="you", words="yours") if owner == me else Whose(kind="colleague", words=f"{owner}'s")
    if not process.mine:
        return Whose(kind="user", words=f"{process.user}'s")
    lives = (process.env or {}).get("HOME", home)
    if lives != home:
        return Whose(kind="elsewhere", words=f"another box's on this machine, its home is {lives}")
    return Whose(kind="login", words="of this login, and not started by a workbook")
