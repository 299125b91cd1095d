"""One authenticated connection to one box, and everything under it that has to be closed with it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from types import TracebackType

import paramiko

from helpers.box import hostkeys
from helpers.box.auth import authenticate
from helpers.box.patience import Patience, patience
from helpers.box.sockets import DEAD_AFTER, ProxyProcess, tcp
from helpers.box.targets import Target, lab_not_up, resolve
from helpers.box.transient import Transient, lost, unreachable
from helpers.box.transport import BoxTransport
from helpers.errors import BoxUnreachable

KEEPALIVE = 10.0
_MAX_JUMPS = 8


class Link:
    """An open connection. Made by `Link.open`; a context manager.

    Attributes:
        transport: paramiko's transport; commands run in its channels.
        opened: monotonic time at which the login was done.
    """

    def __init__(self, target: Target, transport: BoxTransport, under: contextlib.ExitStack) -> None:
        self.target = target
        self.transport = transport
        self.opened = time.monotonic()
        self._under = under

    @classmethod
    def open(cls, target: Target, timeout: float | None = None, *, via: Link | None = None, depth: int = 0) -> Link:
        """Connect (through ``via``, where given), check the host key, log in; all of it within ``timeout`` seconds.

        Without a ``timeout`` it takes what `patience` says; hops have as long, each for itself.

        Raises:
            BoxUnreachable: with the code that tells what was in the way (network, host key, login, lab not up).
        """
        wait = patience(target, timeout)
        with contextlib.ExitStack() as stack, _noted(target):
            via = _jumps(target, timeout, stack, via, depth)
            began = time.monotonic()
            sock, proxy = _socket(target, wait, stack, via)
            transport = BoxTransport(sock)
            stack.callback(transport.close)
            entries = hostkeys.read(target.known_hosts)
            name = hostkeys.lookup_name(target.host, target.port, target.key_name)
            options = transport.get_security_options()
            options.key_types = hostkeys.preferred(entries, name, options.key_types)
            remaining = max(1.0, began + wait.whole - time.monotonic())
            transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = remaining
            try:
                transport.start_client(timeout=remaining)
                key = transport.get_remote_server_key()
                hostkeys.verify(entries, name, key, target.known_hosts, unkept=target.unkept)
                authenticate(transport, target, jump=depth > 0)
            except (paramiko.SSHException, EOFError, OSError) as error:
                late = time.monotonic() - began > wait.whole * 0.95
                if proxy is not None and not transport.initial_kex_done:
                    raise proxy.failed(target.name, wait.whole, late=late) from error
                cause = _words(error)
                address = f"{target.host}:{target.port}"
                raise unreachable(target.name, address, cause, wait.whole, late=late) from error
            transport.watch(KEEPALIVE, DEAD_AFTER)
            return cls(target, transport, stack.pop_all())

    @property
    def alive(self) -> bool:
        return not self.transport.broken and self.transport.is_authenticated()

    def lost(self) -> Transient:
        """The error to raise when this link turned out to be broken."""
        return lost(self.target.name, self.transport.cause)

    def close(self) -> None:
        self._under.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def _noted(target: Target) -> Iterator[None]:
    """An error on the way to ``target`` tells how the configuration was read, where that was not by ssh itself."""
    try:
        yield
    except BoxUnreachable as error:
        if target.note and target.note not in error.lines:
            error.lines.append(target.note)
        raise


def _words(error: Exception) -> str:
    """What went wrong in the handshake; paramiko's own words tell of its inside."""
    said = str(error)
    if "banner" in said:
        return "something answers there, and gives no SSH greeting: it is no SSH server, or an overloaded one"
    if not said or said == "No existing session":
        return "it closed the connection during the handshake, or never went on with it"
    return said


def _jumps(
    target: Target, timeout: float | None, stack: contextlib.ExitStack, via: Link | None, depth: int
) -> Link | None:
    """The link to the last hop before ``target``; what has to be closed after it is put on ``stack``."""
    if via is not None or not target.proxy_jump:
        return via
    if depth >= _MAX_JUMPS:
        hops = ",".join(target.proxy_jump)
        cause = "the jumps lead round in a circle"
        raise unreachable(target.name, f"ProxyJump {hops}", cause, patience(target, timeout).whole)
    for hop in target.proxy_jump:
        via = stack.enter_context(Link.open(resolve(hop), timeout, via=via, depth=depth + 1))
    return via


def _socket(
    target: Target, wait: Patience, stack: contextlib.ExitStack, via: Link | None
) -> tuple[socket.socket | paramiko.Channel, ProxyProcess | None]:
    """The stream to talk SSH over; what has to be closed after it is put on ``stack``."""
    if via is not None:
        return _forward(via, target, wait.reach), None
    if target.proxy_command:
        proxy = stack.enter_context(ProxyProcess(target.proxy_command))
        return proxy.sock, proxy
    try:
        sock = tcp(target.name, target.host, target.port, wait.reach)
        return stack.enter_context(contextlib.closing(sock)), None
    except Transient as error:
        if target.is_lab:
            raise lab_not_up(f"the lab is not up: nothing answers at {target.host}:{target.port}") from error
        raise


def _forward(link: Link, target: Target, timeout: float) -> paramiko.Channel:
    to, origin = (target.host, target.port), ("127.0.0.1", 0)
    began = time.monotonic()
    try:
        return link.transport.open_channel("direct-tcpip", to, origin, timeout=timeout)
    except paramiko.SSHException as error:
        address = f"{to[0]}:{to[1]} from {link.target.name}"
        late = time.monotonic() - began > timeout * 0.95
        raise unreachable(target.name, address, error, timeout, late=late) from error
