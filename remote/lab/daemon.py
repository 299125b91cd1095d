"""The lab's daemon: the SSH server on a socket that `up` has bound, until it is told to stop.

`python -m remote.lab.daemon FOLDER SOCKET_FD GUARDIAN_FD`. It writes one line, ``ready PID``, to its standard output
and then waits for ``keep`` on its standard input: an `up` that is killed before that takes the daemon with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import asyncssh

from remote.lab import leftovers
from remote.lab.keys import key_files
from remote.lab.server import Box, listen
from remote.lab.session_env import session_environment
from remote.lab.state import LOG_FORMAT, Paths, read_record, user_name

log = logging.getLogger("lab")
DESERTED = "`up` went away before it was done"


async def serve(paths: Paths, listening: int, guardian: int) -> bool:
    """Serves until SIGTERM, or until `up` or the guardian is gone. Returns whether the guardian is still there."""
    keys, user = key_files(paths), user_name()
    box = Box(user, asyncssh.read_private_key(keys.client), session_environment(paths, user), str(paths.home))
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()

    def finish(reason: str) -> None:
        if not stop.done():
            stop.set_result(reason)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, finish, f"signal {number.name}")
    loop.add_reader(guardian, finish, "guardian gone")  # nothing is ever written to it: readable means its end
    acceptor = await listen(socket.socket(fileno=listening), str(keys.host), box)
    log.info("listens on port %s, pid %s", acceptor.get_port(), os.getpid())
    try:
        os.write(1, f"ready {os.getpid()}\n".encode())
    except BrokenPipeError:
        finish(DESERTED)
    loop.add_reader(0, _confirm, loop, finish)
    reason = await stop
    log.info("stops: %s", reason)
    acceptor.close()
    return reason != "guardian gone"


def _confirm(loop: asyncio.AbstractEventLoop, finish: Callable[[str], None]) -> None:
    loop.remove_reader(0)
    if os.read(0, 16).strip() != b"keep":
        finish(DESERTED)


def main(argv: list[str]) -> int:
    paths, listening, guardian = Paths(Path(argv[0])), int(argv[1]), int(argv[2])
    os.umask(0o022)
    os.chdir(paths.home)
    # Warnings only of asyncssh: its information lines hold commands, and with them what a command line may hold.
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT, stream=sys.stderr)
    log.setLevel(logging.INFO)
    guarded = asyncio.run(serve(paths, listening, guardian))
    if not guarded:
        leftovers.end(paths, parent=os.getpid())
        record = read_record(paths)
        if record is not None and record.pid == os.getpid():
            paths.record.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
