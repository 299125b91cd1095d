"""Real processes behind the lab's SSH channels, started and left alone as OpenSSH's sshd does it."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from remote.lab.descriptors import Descriptor

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Terminal:
    """What a client asked of a pseudo-terminal: TERM, and columns, rows, width, height (the last two in pixels)."""

    kind: str
    size: tuple[int, int, int, int]


@dataclass(frozen=True)
class Started:
    """A process of a session, leader of its own session and group.

    Fields:
        exit: done when it has ended; the return code as subprocess gives it (negative: the signal).
        stdin, stdout, stderr: our ends; with a terminal all three are its master, and stderr is None.
    """

    pid: int
    exit: asyncio.Future[int]
    stdin: Descriptor
    stdout: Descriptor
    stderr: Descriptor | None

    def signal(self, number: int) -> None:
        """Signals its process group."""
        if not self.exit.done():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def resize(self, size: tuple[int, int, int, int]) -> None:
        if self.stderr is None and not self.stdout.closed:
            _set_size(self.stdout.fileno(), size)


class Children:
    """Waits for the processes of all sessions, also of those whose client is gone, and for the orphans they leave.

    One SIGCHLD handler and no thread: it has to be made inside the running event loop, and nothing else there may
    wait for a child. On Linux, orphans come to this process instead of init, so that it can find them all.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[subprocess.Popen[bytes], asyncio.Future[int]]] = {}
        adopt_orphans()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def _watch(self, process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[process.pid] = process, future
        return future

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # no child is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                pid, status = ended
                if pid in self._waiting:
                    process, future = self._waiting.pop(pid)
                    process.returncode = os.waitstatus_to_exitcode(status)  # else Popen waits for a stranger
                    if not future.done():
                        future.set_result(process.returncode)

    def start(self, command: str | None, env: Mapping[str, str], cwd: str, terminal: Terminal | None) -> Started:
        """Starts a command by the user's shell, or, without one, a login shell.

        Raises:
            OSError: it could not be started.
        """
        shell = login_shell()
        argv = [shell, "-c", command] if command is not None else ["-" + os.path.basename(shell)]
        if terminal is None:
            return self._start_on_pipes(shell, argv, env, cwd)
        return self._start_on_terminal(shell, argv, env, cwd, terminal)

    def _start_on_pipes(self, shell: str, argv: list[str], env: Mapping[str, str], cwd: str) -> Started:
        pairs = [os.pipe() for _ in range(3)]
        (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = pairs
        try:
            process = subprocess.Popen(
                argv,
                executable=shell,
                env=dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except BaseException:
            for fd in (our_stdin, our_stdout, our_stderr):
                os.close(fd)
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        return Started(
            process.pid, self._watch(process), Descriptor(our_stdin), Descriptor(our_stdout), Descriptor(our_stderr)
        )

    def _start_on_terminal(
        self, shell: str, argv: list[str], env: Mapping[str, str], cwd: str, terminal: Terminal
    ) -> Started:
        master, slave = os.openpty()
        try:
            _set_size(master, terminal.size)
            process = subprocess.Popen(
                argv,
                executable=shell,
                env={**env, "TERM": terminal.kind, "SSH_TTY": os.ttyname(slave)},
                cwd=cwd,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        # Two descriptors of one master, since a reader and a writer of ours each close their own.
        return Started(process.pid, self._watch(process), Descriptor(os.dup(master)), Descriptor(master), None)


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants' orphans, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def login_shell() -> str:
    """The user's shell of the password database; /bin/sh where that one lets nobody in."""
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"
    if os.path.basename(shell) in ("nologin", "false") or shutil.which(shell) is None:
        return "/bin/sh"
    return shell


def _take_terminal() -> None:
    """In the child, after setsid: its standard input becomes its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(fd: int, size: tuple[int, int, int, int]) -> None:
    columns, rows, width, height = size
    with suppress(OSError, struct.error):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))
