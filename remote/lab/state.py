"""The lab's folder: where things lie in it, the record of the running lab, and the lock that serialises up and down."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from remote.lab.errors import USAGE, LabError

CHECKOUT = Path(__file__).resolve().parents[2]
ALIAS = "lab"
LOG_FORMAT = "%(asctime)s %(name)s %(message)s"
HOST = "127.0.0.1"  # the only address that is ever bound


@dataclass(frozen=True)
class Paths:
    """Names in the lab's folder ``root``."""

    root: Path

    @property
    def record(self) -> Path:
        return self.root / "lab.json"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.root / "ssh_config"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def home(self) -> Path:
        return self.root / "home"


def lab_paths() -> Paths:
    """The folder of this checkout's lab; ``WORKBOOK_LAB_HOME`` moves it.

    Raises:
        LabError: WB-LAB-FOLDER, where it, the checkout or the interpreter cannot stand in PATH or PYTHONPATH. Cut in
            two there, the box's own SGLang would be passed over for the one that is installed here, patches included.
    """
    paths = Paths(Path(os.environ.get("WORKBOOK_LAB_HOME") or CHECKOUT / ".lab").expanduser().resolve())
    for what, folder in (
        ("the lab's folder", paths.root),
        ("the checkout", CHECKOUT),
        ("the interpreter's folder", Path(sys.executable).parent),
    ):
        if os.pathsep in str(folder):
            raise LabError(
                "WB-LAB-FOLDER",
                f"{what} {folder} has {os.pathsep!r} in its name, which parts the entries of PATH and PYTHONPATH",
                expected=f"a folder without {os.pathsep!r} in its name",
                next="set WORKBOOK_LAB_HOME to another folder" if folder == paths.root else f"move {what}",
                exit_code=USAGE,
            )
    return paths


def user_name() -> str:
    """Who runs this, and the only one whom the lab lets in. The environment may say otherwise, as under sudo."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a uid that nobody entered
        return str(os.getuid())


def start_time(pid: int) -> float | None:
    """When a process started, in a unit that only serves to compare; None when it is gone or only waits for its parent.

    A pid alone names a stranger after reuse; a pid with its start time does not.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if psutil.LINUX:
            # Clock ticks since boot: exact, and untouched by a clock that is set meanwhile.
            return float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return float(process.create_time())
    except (psutil.Error, OSError):
        return None


@dataclass(frozen=True)
class Process:
    """A process that was met: its pid, and the start time that makes it that one."""

    pid: int
    start_time: float

    @classmethod
    def of(cls, pid: int) -> Process:
        started = start_time(pid)
        if started is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, started)

    def alive(self) -> bool:
        return start_time(self.pid) == self.start_time

    def signal(self, number: int) -> None:
        """Signals it, unless it is gone."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class Record:
    """What lab.json says of a running lab. All paths are absolute.

    Fields:
        alias, host, port, user: how to reach it; alias as in `ssh_config`.
        pid, start_time: of the process that listens (unit: see `start_time`).
        guardian_pid, guardian_start_time: of the process that cleans up after it.
        home: HOME of its sessions, and where they start.
        client_key, known_hosts, ssh_config: what a client needs.
        engine: version of the SGLang at ~/sglang, or None for a lab without one.
        tp: tensor parallel size that was asked for.
    """

    alias: str
    host: str
    port: int
    user: str
    pid: int
    start_time: float
    guardian_pid: int
    guardian_start_time: float
    home: str
    client_key: str
    known_hosts: str
    ssh_config: str
    log: str
    engine: str | None
    tp: int

    @property
    def daemon(self) -> Process:
        return Process(self.pid, self.start_time)

    @property
    def guardian(self) -> Process:
        return Process(self.guardian_pid, self.guardian_start_time)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replaces a file whole, or leaves it as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
            out.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_record(paths: Paths, record: Record) -> None:
    write_atomically(paths.record, json.dumps(record.to_json(), indent=1) + "\n")


def read_record(paths: Paths) -> Record | None:
    """The record of this folder's lab, or None where there is none, or none that this version can read.

    The record in a copy of a lab's folder tells of the original, which is none of the copy's business. In a folder that
    was moved it tells of the lab that still runs from the old place.
    """
    try:
        record = Record(**json.loads(paths.record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    copied = Path(record.home) != paths.home and Path(record.home).exists()
    return None if copied else record


@contextmanager
def locked(paths: Paths) -> Iterator[None]:
    """Holds the lab's lock, made of the folder itself so that no lock file stays behind.

    The folder is made if need be, and removed again when nothing was put into it.
    """
    while True:
        try:
            paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise LabError(
                "WB-LAB-FOLDER",
                f"the lab's folder {paths.root} cannot be used: {error.strerror}",
                expected="a folder of yours on a local disk",
                next="set WORKBOOK_LAB_HOME to another folder, or unset it",
                exit_code=USAGE,
            ) from None
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Whoever held the lock may have removed the folder meanwhile: then this locks a folder without a name.
        with suppress(FileNotFoundError):
            if os.fstat(fd).st_ino == paths.root.stat().st_ino:
                break
        os.close(fd)
    try:
        yield
    finally:
        with suppress(OSError):
            paths.root.rmdir()
        os.close(fd)


def say(line: str) -> None:
    """Progress, for people: never on standard output, which belongs to the answer."""
    print(f"lab: {line}", file=sys.stderr, flush=True)
