"""Ports on which the box listens, by ``ss``, else by /proc/net/tcp."""

from __future__ import annotations

import ipaddress
import re

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, unreadable

FACT = "sockets"
# Without IPv6 there is no tcp6, and the second command fails.
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
QUESTION = Question(FACT, (("ss", "-ltnp"), ("cat", *_TABLES), ("cat", _TABLES[0])))
_LISTENING = "0A"  # the state in /proc/net/tcp
_PROCESS = re.compile(r'\("((?:[^"\\]|\\.)*)",pid=(\d+),fd=\d+\)')


class Listener(Fact):
    """One listening socket.

    Attributes:
        address: as it was bound; ``*`` for all addresses of both families.
        pids, program: who listens, and its name; empty and None for another login's, and from /proc/net/tcp.
    """

    address: str
    port: int
    pids: tuple[int, ...] = ()
    program: str | None = None


class Sockets(Fact):
    """All of them, by port."""

    listeners: tuple[Listener, ...] = ()

    def on(self, port: int) -> tuple[Listener, ...]:
        """Who listens on a port, on whichever address."""
        return tuple(listener for listener in self.listeners if listener.port == port)


def parse(answer: Answer) -> Sockets | Absent:
    """Read either of the two.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED, WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    if not answer.lines:
        raise failed(FACT, answer, "a table of sockets")
    found = _tables(answer) if answer.program == "cat" else _ss(answer)
    return Sockets(listeners=tuple(sorted(set(found), key=lambda each: (each.port, each.address))))


def _ss(answer: Answer) -> list[Listener]:
    found = []
    for number, line in enumerate(answer.lines, 1):
        fields = line.split(None, 5)
        if number == 1 and fields[:1] == ["State"]:
            continue
        # State Recv-Q Send-Q Local:Port Peer:Port Process
        if not fields:
            continue
        address, _, port = fields[3].rpartition(":") if len(fields) > 4 else ("", "", "")
        if fields[0] != "LISTEN" or not address or not port.isdigit():
            raise unreadable(FACT, answer, number, "LISTEN, two queues, a local address with its port, a peer")
        who = fields[5] if len(fields) > 5 else ""
        processes = _PROCESS.findall(who)
        if who.startswith("users:") and not processes:
            raise unreadable(FACT, answer, number, 'processes as users:(("name",pid=1,fd=2))')
        found.append(
            Listener(
                address=address.strip("[]"),
                port=int(port),
                pids=tuple(sorted({int(pid) for _, pid in processes})),
                program=processes[0][0] if processes else None,
            )
        )
    return found


def _tables(answer: Answer) -> list[Listener]:
    found = []
    for number, line in enumerate(answer.lines, 1):
        fields = line.split()
        if not fields or fields[0] == "sl":  # the header of either table
            continue
        try:
            state = fields[3]
            if state == _LISTENING:
                address, port = fields[1].split(":")
                found.append(Listener(address=_address(address), port=int(port, 16)))
        except (IndexError, ValueError) as error:
            raise unreadable(FACT, answer, number, "a row of /proc/net/tcp: sl local_address rem_address st") from error
    return found


def _address(digits: str) -> str:
    """An address of /proc/net/tcp: words of 32 bits, each with its bytes backwards."""
    if len(digits) not in (8, 32):
        raise ValueError(digits)
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return f"::ffff:{mapped}" if mapped is not None else str(address)  # as ss writes it
