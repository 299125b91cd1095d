"""The one class of failures after which the same work may be tried again on a new connection."""

from __future__ import annotations

from helpers.box.patience import MORE
from helpers.errors import BoxUnreachable
from helpers.screen import as_typed


class Transient(BoxUnreachable):
    """The link broke or could not be made just now. Wrong keys and refused logins are not of this class."""


def by_hand(where: str) -> str:
    """The box as OpenSSH's own client takes it: the port is an option, and an address of IPv6 has no brackets.

    >>> by_hand("me@box:2222"), by_hand("[::1]:22"), by_hand("alias")
    ('-p 2222 me@box', '-p 22 ::1', 'alias')
    """
    user, at, rest = where.removeprefix("ssh://").rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not (colon and port.isdigit() and (host.startswith("[") or ":" not in host)):
        host, port = rest, ""
    name = as_typed(f"{user}{at}{host.strip('[]')}")
    return f"-p {port} {name}" if port else name


def lost(where: str, cause: object = None) -> Transient:
    """The connection to ``where`` broke off."""
    why = f": {cause}" if cause is not None and str(cause) else ""
    return Transient(
        "WB-SSH-LOST",
        f"the connection to {where} was lost{why}",
        expected="a connection that lasts until the work is done",
        next=f"workbook run {as_typed(where)} -- true",
    )


def unreachable(
    where: str, address: str, cause: object, seconds: float, *, meant: str | None = None, late: bool = False
) -> Transient:
    """No connection could be made within ``seconds``.

    ``meant``: a box that there is, of nearly that name. ``late``: the time ran out, so that more of it may help.
    """
    check = "check the address, the port and the network (VPN?): ssh -v " + by_hand(where)
    return Transient(
        "WB-SSH-CONNECT",
        f"{where} ({address}) cannot be reached: {cause}",
        expected=f"an SSH server that answers within {seconds:g} s" + (f" ({MORE})" if late else ""),
        next=check if meant is None else f"did you mean {meant!r}? else: {check}",
    )
