"""One command on the box: both output streams drained together, one deadline, and an end that is really the end."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Literal, cast

import paramiko

from helpers.box.bulk import Batch, BulkBuffer
from helpers.box.ending import end_group
from helpers.box.quoting import Raw
from helpers.box.session import Session
from helpers.box.transient import Transient, lost
from helpers.box.transport import BoxTransport
from helpers.box.wrap import Marker, wrap
from helpers.errors import RemoteFailed

BLOCK = 1 << 18
"""Bytes taken from a channel at a time."""

FAST_BLOCK = 1 << 21
"""As many as the default window holds, so that all that is there is taken at once."""

_SEND = 32768 - 64  # what fits into one packet

Event = tuple[Literal["out", "err"], bytes]


class Execution:
    """Runs ``argv`` when its events are iterated.

    Attributes:
        exit_status: known when the events have ended; 128 + n after signal n.
        stderr_tail: the last bytes of stderr, kept by `blocks`.
        pid, group: of the command on the box, once it has started.
    """

    def __init__(
        self,
        session: Session,
        argv: Sequence[str | Raw],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Iterable[bytes] | None = None,
        deadline: float | None = None,
        login_shell: str = "sh",
        window: int | None = None,
    ) -> None:
        self.session = session
        self.argv = tuple(argv)
        self.exit_status: int | None = None
        self.deadline = deadline
        self.stderr_tail = b""
        self._window = window
        self._wrapped = wrap(argv, cwd=cwd, env=env, login_shell=login_shell)
        self._stdin: Iterable[bytes] = (stdin,) if isinstance(stdin, bytes) and stdin else stdin or ()
        self._out, self._err = Marker(self._wrapped.nonce), Marker(self._wrapped.nonce)
        self._started = time.monotonic()

    @property
    def pid(self) -> int | None:
        return self._err.pid

    @property
    def group(self) -> int | None:
        return self._err.group

    def events(self) -> Generator[Event]:
        """Blocks of stdout and stderr as they come, each at most `BLOCK` bytes.

        Leaving the loop early, an exception in it (Ctrl-C too) or the deadline end the command's process group.

        Raises:
            RemoteFailed: WB-RUN-DEADLINE; WB-RUN-NO-SHELL where the box runs no commands.
            Transient: WB-SSH-LOST, the connection broke; the command may go on there.
        """
        with self.session.channel(wait=self.deadline) as channel:
            feeder = self._start(channel)
            try:
                yield from self._drain(channel)
            except Transient:
                raise  # there is no link to end it over; the error says that it may still run
            except (paramiko.SSHException, EOFError, ConnectionError) as error:
                raise self._lost(channel) from error
            except BaseException as error:
                if not self._end(channel) and isinstance(error, RemoteFailed):
                    error.message += "; whether it has ended could not be confirmed"
                raise
            finally:
                channel.close()
                if feeder is not None:
                    feeder.join(5)

    def blocks(self) -> Generator[list[bytes]]:
        """stdout alone, some blocks at a time: the fastest way, for commands that only read.

        Leaving early closes the pipe that the command writes to, which ends it.

        Raises:
            Transient: WB-SSH-LOST, after all that had come. RemoteFailed: WB-RUN-NO-SHELL.
        """
        with self.session.channel(window=self._window, wait=self.deadline) as channel:
            setattr(channel, "in_buffer", BulkBuffer())  # noqa: B010 - not of the type that paramiko declares
            feeder = self._start(channel)
            channel.settimeout(1.0)
            try:
                while True:
                    self._keep_stderr(channel)
                    try:
                        batch = cast(Batch, channel.recv(FAST_BLOCK))
                    except TimeoutError:
                        self._left()
                        continue
                    if not batch:
                        break
                    if self._out.seen:
                        yield batch.blocks
                    elif block := self._out.feed(b"".join(batch.blocks)):
                        yield [block]
                while channel.recv_stderr_ready() or not channel.status_event.wait(min(self._left(), 1.0)):
                    self._keep_stderr(channel)
                self._keep_stderr(channel)
                self._finish(channel)
            except (paramiko.SSHException, EOFError, ConnectionError) as error:
                raise self._lost(channel) from error
            finally:
                channel.close()
                if feeder is not None:
                    feeder.join(5)

    def _keep_stderr(self, channel: paramiko.Channel) -> None:
        while channel.recv_stderr_ready():
            self.stderr_tail = (self.stderr_tail + self._err.feed(channel.recv_stderr(BLOCK)))[-4096:]

    def _start(self, channel: paramiko.Channel) -> threading.Thread | None:
        try:
            channel.settimeout(self.session.timeout)
            channel.exec_command(self._wrapped.text)
            if self._wrapped.preamble:
                channel.sendall(self._wrapped.preamble)
            channel.settimeout(None)
            if self._stdin:
                # In a thread of its own: a command may want its output read before it reads on.
                feeder = threading.Thread(target=_feed, args=(channel, self._stdin), name="box-stdin", daemon=True)
                feeder.start()
                return feeder
            channel.shutdown_write()
        except (paramiko.SSHException, EOFError, OSError) as error:
            if is_lost(channel):
                raise self._lost(channel) from error
            raise _no_shell(self.session.target.name, str(error), b"") from error
        return None

    def _drain(self, channel: paramiko.Channel) -> Generator[Event]:
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        while True:
            came = False
            if channel.recv_ready():
                came = True
                if block := self._out.feed(channel.recv(BLOCK)):
                    yield "out", block
            if channel.recv_stderr_ready():
                came = True
                if block := self._err.feed(channel.recv_stderr(BLOCK)):
                    yield "err", block
            left = self._left()  # also while output flows: one deadline for everything
            if came:
                continue
            if channel.eof_received or channel.closed:
                # The exit status follows the end of the output.
                if channel.status_event.wait(min(left, 1.0)) and not (
                    channel.recv_ready() or channel.recv_stderr_ready()
                ):
                    break
                continue
            poll.poll(min(left, 1.0) * 1000)
        self._finish(channel)

    def _left(self) -> float:
        if self.deadline is None:
            return 3600.0
        left = self.deadline - (time.monotonic() - self._started)
        if left <= 0:
            raise RemoteFailed(
                "WB-RUN-DEADLINE",
                f"{self.argv[0]!r} was not done after {self.deadline:g} s on {self.session.target.name}, and was ended",
                expected=f"an end within {self.deadline:g} s",
                next="give it more time (deadline=...), or look at what it waits for",
            )
        return left

    def _finish(self, channel: paramiko.Channel) -> None:
        if channel.exit_status == -1:
            if is_lost(channel):
                raise self._lost(channel)
            raise _no_shell(self.session.target.name, "the command ended without an exit status", self._err.noise)
        if not self._err.seen:
            raise _no_shell(self.session.target.name, "it did not start a shell", self._err.noise + self._out.noise)
        self.exit_status = channel.exit_status

    def _lost(self, channel: paramiko.Channel) -> Transient:
        transport = channel.get_transport()
        error = lost(self.session.target.name, transport.cause if isinstance(transport, BoxTransport) else None)
        if self.pid is not None:
            error.message += f"; {self.argv[0]!r} may still run there as process {self.pid}"
        return error

    def kill(self) -> None:
        """End the command's process group from another thread than the one that reads its events."""
        until = time.monotonic() + 2.0
        while self.pid is None and self.exit_status is None and time.monotonic() < until:
            time.sleep(0.02)  # it has only just been asked for
        if self.pid is not None and self.exit_status is None:
            end_group(self.session, self.pid, group=self.group is not None)

    def _end(self, channel: paramiko.Channel) -> bool:
        """End the process group, unless the command is already over; True when nothing of it is left."""
        if channel.status_event.is_set() and channel.exit_status != -1:
            return True
        if self.pid is None and not channel.closed:
            # The marker has not come yet: it is the first thing that the command says.
            channel.settimeout(2.0)
            with contextlib.suppress(OSError):
                while self.pid is None and (block := channel.recv_stderr(BLOCK)):
                    self._err.feed(block)
        return self.pid is not None and end_group(self.session, self.pid, group=self.group is not None)


def _feed(channel: paramiko.Channel, data: Iterable[bytes]) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        try:
            for block in data:
                for start in range(0, len(block), _SEND):
                    channel.sendall(block[start : start + _SEND])
        finally:
            # Also where the data cannot be read to its end: the command would wait for the rest for ever.
            channel.shutdown_write()


def is_lost(channel: paramiko.Channel) -> bool:
    """Whether the link under ``channel`` is gone, and not the channel alone."""
    transport = channel.get_transport()
    assert isinstance(transport, BoxTransport)
    if not transport.broken:
        transport.join(0.2)  # a server that hangs up properly leaves no exception behind, but the thread ends
    return transport.broken


def _no_shell(where: str, why: str, said: bytes) -> RemoteFailed:
    return RemoteFailed(
        "WB-RUN-NO-SHELL",
        f"{where} runs no commands for this login: {why}",
        expected="a login with a shell (pull and push of files work without one)",
        next="ask whoever runs the box for shell access",
        lines=said.decode(errors="replace").splitlines()[-5:],
    )
