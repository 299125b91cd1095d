"""The bytes of a file on the box, from any offset: by ``cat`` over an exec channel, by SFTP where there is no shell."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import paramiko

from helpers.box import sftp
from helpers.box.execution import Execution, is_lost
from helpers.box.pipelining import read_pipelined
from helpers.box.transient import lost
from helpers.errors import RemoteFailed
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box


def read_from(box: Box, full: str, offset: int, window: int | None = None) -> Generator[list[bytes]]:
    """The file's bytes from ``offset`` to its end, some blocks at a time.

    Args:
        window: bytes that may be on their way at once, and so are lost when the link breaks.

    Raises:
        RemoteFailed: WB-FILE-READ. Transient: the link broke; all that had come was given out before.
    """
    if not box.has_shell:
        yield from _over_sftp(box, full, offset)
        return
    argv = ["tail", "-c", f"+{offset + 1}", "--", full] if offset else ["cat", "--", full]
    execution = Execution(box.session, argv, login_shell=box.login_shell, window=window)
    yield from execution.blocks()
    if execution.exit_status:
        raise unreadable(box.name, full, execution.stderr_tail.decode(errors="replace"))


def _over_sftp(box: Box, full: str, offset: int) -> Generator[list[bytes]]:
    with sftp.open_sftp(box.session) as client:
        try:
            with client.open(full, "rb") as file:
                for block in read_pipelined(client, file, offset):
                    yield [block]
        except (OSError, EOFError, paramiko.SSHException) as error:
            if is_lost(client.sock):
                raise lost(box.name, error) from error
            raise unreadable(box.name, full, str(error)) from error


def unreadable(name: str, full: str, why: str) -> RemoteFailed:
    """The error for a file on the box that stopped being readable."""
    return RemoteFailed(
        "WB-FILE-READ",
        f"{name}:{full} cannot be read",
        expected="a file that may be read to its end",
        next=f"workbook run {name} -- ls -l {as_typed(full)}",
        lines=why.strip().splitlines()[-5:],
    )
