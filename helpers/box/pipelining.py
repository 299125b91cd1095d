"""SFTP reads with many requests on their way at once.

paramiko's own prefetch runs in a thread that dies loudly when the link breaks, and asks for the whole file at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import paramiko
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, int64

_PIECE = 32768
_AT_ONCE = 64


class _Answers:
    """Takes the server's answers as they come; ``client`` finds it by its request numbers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.data: dict[int, bytes] = {}

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        if kind == CMD_STATUS:
            try:
                self._client._convert_status(message)
            except EOFError:
                self.data[number] = b""
                return
        if kind != CMD_DATA:
            raise paramiko.SFTPError("the server answered a read with something else")
        self.data[number] = message.get_string()


def read_pipelined(client: paramiko.SFTPClient, file: paramiko.SFTPFile, offset: int) -> Iterator[bytes]:
    """The bytes of an open remote file from ``offset`` to its end.

    Raises:
        OSError, EOFError, paramiko.SSHException: as paramiko does.
    """
    plain: Any = client
    answers = _Answers(client)
    handle = file.handle
    waiting: deque[tuple[int, int]] = deque()  # request number, offset
    ask_at = offset

    def ask(start: int, length: int) -> int:
        number: int = plain._async_request(answers, CMD_READ, handle, int64(start), length)
        return number

    def answer(number: int) -> bytes:
        while number not in answers.data:
            plain._read_response()
        return answers.data.pop(number)

    while True:
        while len(waiting) < _AT_ONCE:
            waiting.append((ask(ask_at, _PIECE), ask_at))
            ask_at += _PIECE
        number, start = waiting.popleft()
        piece = answer(number)
        if not piece:
            return
        yield piece
        # A server may give less than was asked for: the rest of this piece comes before the next.
        have = len(piece)
        while have < _PIECE:
            more = answer(ask(start + have, _PIECE - have))
            if not more:
                return
            yield more
            have += len(more)
