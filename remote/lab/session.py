"""One SSH session of the lab: a process with its pumps, or SFTP on the real file system."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import cast

import asyncssh
from asyncssh.channel import SSHChannel
from asyncssh.stream import SSHServerStreamSession

from remote.lab.descriptors import CHUNK, Descriptor
from remote.lab.process import Children, Started, Terminal, login_shell

# What sshd takes from a client where nobody changed its configuration (Debian's). More would let a script work here
# that fails on a real box.
ACCEPTED_ENV = ("LANG", "LC_*")
SFTP_VERSION = 3  # what OpenSSH speaks
# The signals that RFC 4254 names, and OpenSSH delivers.
SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")


class BoxSession(SSHServerStreamSession[bytes]):
    """Runs what a client asks for on one channel.

    When the client closes the channel or is gone, our ends of the pipes are closed and the process is left alone: it
    sees EOF on its input and SIGPIPE when it writes, as under OpenSSH. With a terminal it gets the kernel's SIGHUP.
    """

    def __init__(self, children: Children, env: Mapping[str, str], home: str) -> None:
        super().__init__(self._serve, _sftp, SFTP_VERSION)
        self._children = children
        self._base_env = env
        self._home = home
        self._terminal: Terminal | None = None
        self._started: Started | None = None
        self._task: asyncio.Task[None] | None = None

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        self._terminal = Terminal(term_type, term_size)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == "sftp"

    def signal_received(self, signal_name: str) -> None:
        if self._started is not None and signal_name in SIGNALS:
            self._started.signal(signal.Signals[f"SIG{signal_name}"])

    def break_received(self, msec: int) -> bool:
        return False

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._started is not None:
            self._started.resize((width, height, pixwidth, pixheight))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()
        super().connection_lost(exc)

    async def _serve(
        self, stdin: asyncssh.SSHReader[bytes], stdout: asyncssh.SSHWriter[bytes], stderr: asyncssh.SSHWriter[bytes]
    ) -> None:
        self._task = asyncio.current_task()
        channel = cast("asyncssh.SSHServerChannel[bytes]", stdin.channel)
        try:
            started = self._children.start(channel.get_command(), self._env(channel), self._home, self._terminal)
        except OSError as error:  # such as a command above the kernel's limit; sshd's child says it the same way
            stderr.write(f"{login_shell()}: {error.strerror}\n".encode())
            channel.exit(1)
            return
        self._started = started
        ends = [end for end in (started.stdin, started.stdout, started.stderr) if end is not None]
        pumps = [
            asyncio.create_task(_report(channel, started.exit)),
            *(asyncio.create_task(_drain(end, sink)) for end, sink in zip(ends[1:], (stdout, stderr), strict=False)),
        ]
        feeding = asyncio.create_task(_feed(stdin, started.stdin))
        try:
            await asyncio.gather(*pumps)
            with suppress(OSError):
                channel.write_eof()
            channel.close()
        finally:
            for task in (feeding, *pumps):
                task.cancel()
            await asyncio.gather(feeding, *pumps, return_exceptions=True)
            for end in ends:  # a pump that was cancelled before its first step has not closed its own
                end.close()

    def _env(self, channel: asyncssh.SSHServerChannel[bytes]) -> dict[str, str]:
        """The session's environment: the lab's, who called, and what of the client's wishes sshd would take."""
        address, port = channel.get_extra_info("peername")[:2]
        local_address, local_port = channel.get_extra_info("sockname")[:2]
        asked = channel.get_environment()
        return {
            **{k: v for k, v in asked.items() if any(fnmatchcase(k, pattern) for pattern in ACCEPTED_ENV)},
            **self._base_env,
            "SSH_CLIENT": f"{address} {port} {local_port}",
            "SSH_CONNECTION": f"{address} {port} {local_address} {local_port}",
        }


async def _drain(source: Descriptor, sink: asyncssh.SSHWriter[bytes]) -> None:
    """Pumps a process's output to the client until nobody holds its other end; memory is bounded by drain()."""
    try:
        while data := await source.read():
            sink.write(data)
            await sink.drain()
            await asyncio.sleep(0)  # a source that is always ready must not starve other channels
    except OSError:
        pass  # the channel is closed: nowhere to write to
    finally:
        source.close()


async def _feed(source: asyncssh.SSHReader[bytes], sink: Descriptor) -> None:
    """Pumps the client's input to a process and then closes it; what a process does not want to read is dropped."""
    try:
        while data := await source.read(CHUNK):
            if not sink.closed:
                try:
                    await sink.write(data)
                except OSError:
                    sink.close()
    except (OSError, asyncssh.Error):
        pass
    finally:
        sink.close()


async def _report(channel: asyncssh.SSHServerChannel[bytes], exited: asyncio.Future[int]) -> None:
    """Tells the client how the process ended as soon as it did, though others may still hold its output.

    sshd does so; asyncssh's exit() would close the channel at once, and cut off output that is still to come.
    """
    code = await asyncio.shield(exited)
    with suppress(OSError):
        if code >= 0:
            channel._send_request(b"exit-status", code.to_bytes(4, "big"))
        else:
            channel._send_request(b"exit-signal", *_exit_signal(-code))


def _exit_signal(number: int) -> tuple[bytes, ...]:
    """Name, core dumped, message, language (RFC 4254, 6.10); OpenSSH's own name for a signal that has none there."""
    name = next((name for name in SIGNALS if signal.Signals[f"SIG{name}"] == number), "SIG@openssh.com").encode()
    return len(name).to_bytes(4, "big") + name, b"\0", b"\0\0\0\0", b"\0\0\0\0"


class _Files(asyncssh.SFTPServer):
    """Files as they are: relative paths start at the daemon's working folder, which is the box's home."""

    def exit(self) -> None:
        self.channel.exit(0)  # as sftp-server does; without a status, scp takes the transfer for failed


def _sftp(channel: SSHChannel[bytes]) -> asyncssh.SFTPServer:
    return _Files(cast("asyncssh.SSHServerChannel[bytes]", channel))
