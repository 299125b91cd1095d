"""Starts the guardian and its daemon, detached, and takes everything back when that does not end well."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

from remote.lab.checkout import fill_home
from remote.lab.errors import FAILED, USAGE, LabError
from remote.lab.keys import ensure_keys, write_client_files
from remote.lab.reach import answers
from remote.lab.session_env import DAEMON_MARKER
from remote.lab.state import (
    ALIAS,
    CHECKOUT,
    HOST,
    Paths,
    Process,
    Record,
    say,
    user_name,
    write_record,
)

READY_SECONDS = 60.0
INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""What the daemon needs of `up`'s environment; whatever else is there, such as secrets, is none of its business."""


def start(paths: Paths, listening: socket.socket, *, engine: str | None, tp: int) -> Record:
    """Makes what the lab's folder lacks, starts the lab on a bound socket and waits until it lets its client in.

    Raises:
        LabError: it did not come up; nothing of it runs any more.
    """
    port = int(listening.getsockname()[1])
    try:
        keys = ensure_keys(paths)
        fill_home(paths, engine, say)
        write_client_files(paths, keys, port, user_name())
        guardian = _spawn(paths, listening)
    except OSError as error:
        raise _unwritten(error, paths) from error
    try:
        pid = _ready(guardian, paths)
        record = Record(
            alias=ALIAS,
            host=HOST,
            port=port,
            user=user_name(),
            pid=pid,
            start_time=Process.of(pid).start_time,
            guardian_pid=guardian.pid,
            guardian_start_time=Process.of(guardian.pid).start_time,
            home=str(paths.home),
            client_key=str(keys.client),
            known_hosts=str(paths.known_hosts),
            ssh_config=str(paths.ssh_config),
            log=str(paths.log),
            engine=engine,
            tp=tp,
        )
        if not answers(record):
            raise _failed(f"the lab's server on port {port} does not answer", paths)
        _deaf()  # from here on the lab is up, and an interrupt must not claim otherwise
        write_record(paths, record)
        _keep(guardian, paths)
    except BaseException:
        _deaf()  # a second Ctrl-C must not cut this short
        if guardian.poll() is None:
            stop(Process.of(guardian.pid))
        raise
    return record


def _deaf() -> None:
    """Takes no further interrupt: the command is about to end anyway."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def stop(guardian: Process, seconds: float = 15) -> None:
    """Asks the guardian to end the lab, and waits until it has. One that does not is killed; the daemon sees that."""
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
        guardian.signal(number)
        end = time.monotonic() + patience
        while guardian.alive() and time.monotonic() < end:
            time.sleep(0.02)


def _spawn(paths: Paths, listening: socket.socket) -> subprocess.Popen[bytes]:
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env |= {"PYTHONPATH": str(CHECKOUT), "HOME": str(paths.home), DAEMON_MARKER: str(paths.root)}
    with open(os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "remote.lab.guardian", str(paths.root), str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=CHECKOUT,
            env=env,
            pass_fds=(listening.fileno(),),
            start_new_session=True,
        )


def _ready(guardian: subprocess.Popen[bytes], paths: Paths) -> int:
    """The daemon's pid, once it says that it serves."""
    assert guardian.stdout is not None
    readable, _, _ = select.select([guardian.stdout], [], [], READY_SECONDS)
    words = guardian.stdout.readline().split() if readable else []
    if words[:1] != [b"ready"]:
        raise _failed("the lab's server ended while it started" if readable else "the lab's server said nothing", paths)
    return int(words[1])


def _keep(guardian: subprocess.Popen[bytes], paths: Paths) -> None:
    """Tells the daemon to outlive this process."""
    assert guardian.stdin is not None
    try:
        guardian.stdin.write(b"keep\n")
        guardian.stdin.close()
    except OSError:
        raise _failed("the lab's server ended while it started", paths) from None


def _unwritten(error: OSError, paths: Paths) -> LabError:
    """A folder that cannot be filled: no room, a bound on files, a file in a folder's place."""
    reason, file = error.strerror or str(error), error.filename
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # one for each file of a tree
        file, _, reason = error.args[0][0]
    return LabError(
        "WB-LAB-FOLDER",
        f"the lab's folder {paths.root} cannot be filled: {reason}" + (f" ({file})" if file else ""),
        expected="a folder of yours on a local disk with 100 MB of room",
        next=f"df -h {shlex.quote(str(paths.root))}; or set WORKBOOK_LAB_HOME to another folder",
        exit_code=USAGE,
    )


def _failed(message: str, paths: Paths) -> LabError:
    return LabError(
        "WB-LAB-START-FAILED",
        message,
        expected="a server that answers on the loopback",
        next=f"tail -n 20 {shlex.quote(str(paths.log))}",
        exit_code=FAILED,
    )
