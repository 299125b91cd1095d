"""The box as a person thinks of it: run this there, read that file, fetch this folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from helpers.box import files, hello
from helpers.box.execution import Execution
from helpers.box.lines import LineSplitter
from helpers.box.quoting import Raw, join
from helpers.box.result import CommandResult, printable
from helpers.box.session import Session
from helpers.box.targets import Target, resolve
from helpers.box.transfer import Transfer, pull, push
from helpers.box.tunnel import Tunnel
from helpers.errors import RemoteFailed

if TYPE_CHECKING:
    from helpers.box.facts import Facts
    from helpers.box.near import NearData


def connect(target: str | Target = "lab", *, timeout: float | None = None) -> Box:
    """Connect to ``lab``, ``user@host[:port]`` or an alias of ~/.ssh/config.

    Args:
        target: the name, or an endpoint that is already resolved.
        timeout: seconds for the connection with everything in it (network, host key, login); by default what
            WORKBOOK_CONNECT_TIMEOUT says, else ConnectTimeout of ~/.ssh/config, and 15 at least.

    Raises:
        UsageError: the target is none. BoxUnreachable: the code says what was in the way.
    """
    session = Session(resolve(target) if isinstance(target, str) else target, timeout)
    try:
        session.link()  # a box that cannot be reached now is told at once, without trying again
        return Box(session, hello.greet(session))
    except BaseException:
        session.close()
        raise


class Box:
    """A connected box. Make one with `connect`; use it as a context manager, or `close` it.

    Safe to use from several threads. When the link breaks, the next call connects again; what only reads is tried
    again by itself.

    Attributes:
        name: the target as given. user, host, port: where that led.
        home: the login's home on the box, which a leading ``~/`` of any path argument stands for.
    """

    def __init__(self, session: Session, greeting: hello.Greeting) -> None:
        self.session = session
        self.name = session.target.name
        self.user = session.target.user
        self.host = session.target.host
        self.port = session.target.port
        self.home = greeting.home
        self.has_shell = greeting.has_shell
        self.login_shell = greeting.login_shell
        self.pythons: dict[str, str] = {}  # what runs our code in the place of one that cannot (helpers/box_python.py)

    def path(self, path: str) -> str:
        """``path`` as an absolute path on the box: ``~/x`` and ``x`` both lie in the home."""
        if path == "~" or path.startswith("~/"):
            return self.home + path[1:]
        return path if path.startswith("/") else f"{self.home}/{path}"

    def execute(
        self,
        argv: Sequence[str | Raw],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        deadline: float | None = None,
    ) -> Execution:
        """The command as an `Execution`, for callers that want the bytes of each stream as they come."""
        return Execution(
            self.session,
            argv,
            cwd=None if cwd is None else self.path(cwd),
            env=env,
            stdin=stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin,
            deadline=deadline,
            login_shell=self.login_shell,
        )

    def run(
        self,
        argv: Sequence[str | Raw],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        deadline: float | None = None,
        check: bool = True,
        idempotent: bool = False,
    ) -> CommandResult:
        """Run a command to its end and return what it said.

        Args:
            argv: the program and its arguments; each reaches it as it is, whatever it holds.
            env: added to the environment; it travels on stdin, so ``ps`` on the box does not show it.
            stdin: what the command reads; nothing (end of file at once) by default.
            deadline: seconds of wall-clock time; after them the command's process group is ended.
            check: raise on an exit status other than 0.
            idempotent: the command may be run again should the link break meanwhile.

        Raises:
            RemoteFailed: WB-RUN-FAILED with the last lines of stderr; WB-RUN-DEADLINE.
            BoxUnreachable: the link broke, or could not be made.
        """
        if idempotent:
            return self.session.retry(
                lambda: self.run(argv, cwd=cwd, env=env, stdin=stdin, deadline=deadline, check=check)
            )
        started, clock = datetime.now(UTC), time.monotonic()
        execution = self.execute(argv, cwd=cwd, env=env, stdin=stdin, deadline=deadline)
        parts: dict[str, list[bytes]] = {"out": [], "err": []}
        with contextlib.closing(execution.events()) as events:
            for name, block in events:
                parts[name].append(block)
        out, err = b"".join(parts["out"]), b"".join(parts["err"])
        result = CommandResult(
            argv=tuple(item.text if isinstance(item, Raw) else item for item in argv),
            command=join(argv),
            exit_status=execution.exit_status if execution.exit_status is not None else -1,
            stdout=out.decode("utf-8", "surrogateescape"),
            stderr=err.decode("utf-8", "surrogateescape"),
            seconds=time.monotonic() - clock,
            bytes_stdout=len(out),
            bytes_stderr=len(err),
            box=self.name,
            started=started.isoformat(timespec="milliseconds"),
        )
        if check and not result.ok:
            raise failed(self.name, argv, result.exit_status, result.stderr.splitlines() or result.stdout.splitlines())
        return result

    def sh(
        self,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        deadline: float | None = None,
        check: bool = True,
        idempotent: bool = False,
    ) -> CommandResult:
        """Run ``script`` as shell text by the box's /bin/sh. Never build it from what a user typed: use `run`."""
        return self.run(
            ["/bin/sh", "-c", script],
            cwd=cwd,
            env=env,
            stdin=stdin,
            deadline=deadline,
            check=check,
            idempotent=idempotent,
        )

    def stream(
        self,
        argv: Sequence[str | Raw],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        deadline: float | None = None,
        check: bool = True,
    ) -> Iterator[str]:
        """The lines of stdout and stderr as they come, without their newlines, in bounded memory.

        A line above 64 Ki characters comes in pieces. Leaving the loop early ends the command.

        Raises:
            RemoteFailed: at the end, on an exit status other than 0 (unless ``check`` is off).
        """
        execution = self.execute(argv, cwd=cwd, env=env, deadline=deadline)
        splitters = {"out": LineSplitter(), "err": LineSplitter()}
        last: list[str] = []
        with contextlib.closing(execution.events()) as events:
            for name, block in events:
                for line in splitters[name].feed(block):
                    last = [*last[-9:], line]
                    yield line
        for splitter in splitters.values():
            for line in splitter.feed(b"", final=True):
                last = [*last[-9:], line]
                yield line
        if check and execution.exit_status:
            raise failed(self.name, argv, execution.exit_status, last)

    def sh_stream(self, script: str, *, deadline: float | None = None, check: bool = True) -> Iterator[str]:
        """`stream` for shell text; the same care as with `sh`."""
        return self.stream(["/bin/sh", "-c", script], deadline=deadline, check=check)

    def read_bytes(self, path: str) -> bytes:
        """The content of a file on the box, held in memory: for small files (`pull` fetches large ones)."""
        return files.read(self, path)

    def read_text(self, path: str) -> str:
        """The content of a UTF-8 file on the box."""
        return self.read_bytes(path).decode("utf-8")

    def write_bytes(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file on the box: whole or not at all (temporary name, fsync, rename). Folders above it are made."""
        files.write(self, path, data, mode)

    def write_text(self, path: str, data: str, mode: int | None = None) -> None:
        self.write_bytes(path, data.encode("utf-8"), mode)

    def pull(
        self,
        remote: str,
        local: Path | str,
        *,
        progress: bool = True,
        wait: bool | float = False,
        digest: bool = False,
    ) -> Transfer:
        """Fetch a file or a folder; see `helpers.box.transfer.pull`."""
        return pull(self, remote, Path(local), progress=progress, wait=wait, digest=digest)

    def push(self, local: Path | str, remote: str, *, progress: bool = True) -> Transfer:
        """Bring a file or a folder to the box; see `helpers.box.transfer.push`."""
        return push(self, Path(local), remote, progress=progress)

    def facts(self, *, interpreter: str = "python3", folders: Sequence[str] = (), progress: bool = True) -> Facts:
        """What the box is and what runs on it, asked in one trip or two; see `helpers.box.facts`."""
        from helpers.box.facts import gather

        return gather(self, interpreter=interpreter, folders=folders, progress=progress)[0]

    def near(self, python: str = "python3") -> NearData:
        """Answers about tensors from beside them, without their bytes. ``python``: an interpreter with torch."""
        from helpers.box.near import NearData

        return NearData(self, python)

    def tunnel(self, port: int, host: str = "127.0.0.1") -> Tunnel:
        """A local port, chosen free, that leads to ``host``:``port`` as seen from the box. A context manager."""
        self.session.link()
        return Tunnel(self.session, port, host)

    def close(self) -> None:
        self.session.close()

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Box {self.name}: {self.user}@{self.host}:{self.port}>"


def failed(name: str, argv: Sequence[str | Raw], status: int, last: list[str]) -> RemoteFailed:
    """The error for a command that ended with ``status``; ``last`` are its last lines."""
    program = argv[0].text if isinstance(argv[0], Raw) else argv[0]
    return RemoteFailed(
        "WB-RUN-FAILED",
        f"{program!r} on {name} ended with exit status {status}"
        + (f" (signal {status - 128})" if 128 < status < 192 else ""),
        expected="exit status 0",
        next="read the lines above; to look around: workbook run " + name + " -- ls -la",
        lines=[printable(line) for line in last[-10:]],
    )
