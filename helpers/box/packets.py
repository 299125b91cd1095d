"""Reading SSH packets: many with one system call, the time of the last one noted, new keys as seldom as allowed."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from paramiko.packet import NeedRekeyException, Packetizer

_AHEAD = 1 << 18
"""Bytes that one call takes from the socket; eight packets of a transfer."""
_HANDSHAKE = 1 << 15
"""Bytes of a connection within which each read is acknowledged at once."""
_REMAINDER = "_Packetizer__remainder"


class BoxPacketizer(Packetizer):
    """paramiko's reader with a buffer before it, which spares two of three system calls of a transfer.

    In the first packets it also asks the kernel to acknowledge without delay: an OpenSSH server has Nagle's algorithm
    on until the first command runs, and would wait 40 ms for the acknowledgement that ours holds back.

    RFC 4344 bounds a key to 2**32 blocks, 64 GiB; paramiko asks for new ones after 512 MiB, in the midst of every
    larger transfer.

    Attributes:
        last_packet: monotonic time at which the last packet came.
    """

    REKEY_BYTES = 1 << 35
    _check_keepalive: Any

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.last_packet = time.monotonic()
        self._sock = sock
        self._buffer = memoryview(bytearray(_AHEAD))
        self._at = self._end = self._received = 0

    def read_message(self) -> Any:
        message = super().read_message()
        self.last_packet = time.monotonic()
        return message

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """The next ``n`` bytes from the peer.

        Raises:
            EOFError: it hung up. NeedRekeyException: nothing has come, and new keys are due (``check_rekey``).
        """
        if self._end - self._at < n:
            self._fill(n, check_rekey)
        self._at += n
        return bytes(self._buffer[self._at - n : self._at])

    def _fill(self, count: int, check_rekey: bool) -> None:
        rest = bytes(self._buffer[self._at : self._end]) + self._of_the_banner()
        if count > len(self._buffer) or len(rest) > len(self._buffer):
            self._buffer = memoryview(bytearray(max(count, len(rest)) + _AHEAD))
        self._buffer[: len(rest)] = rest
        self._at, self._end = 0, len(rest)
        while self._end < count:
            if self.handshake_timed_out():
                raise EOFError
            try:
                came = self._receive()
            except (TimeoutError, BlockingIOError):
                if self.closed:
                    raise EOFError from None
                if check_rekey and self._end == 0 and self.need_rekey():
                    raise NeedRekeyException from None
                self._check_keepalive()
                continue
            except OSError:
                if self.closed:
                    raise EOFError from None
                raise
            if came == 0:
                raise EOFError
            self._end += came

    def _of_the_banner(self) -> bytes:
        """What paramiko read beyond the server's first line."""
        rest: bytes = getattr(self, _REMAINDER)
        setattr(self, _REMAINDER, b"")
        return rest

    def _receive(self) -> int:
        if not isinstance(self._sock, socket.socket):  # the channel of a ProxyJump
            block = self._sock.recv(len(self._buffer) - self._end)
            self._buffer[self._end : self._end + len(block)] = block
            return len(block)
        came = self._sock.recv_into(self._buffer[self._end :])
        if self._received < _HANDSHAKE:
            self._received += came
            with contextlib.suppress(OSError, AttributeError):  # no TCP, or not on Linux
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return came
