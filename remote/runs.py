"""The folder of runs, ``~/.workbook/runs/<run id>/``: run.json, pid, server.log, and what a run keeps beside them.

run.json (schema ``workbook.run/1``) is written by the laptop's words and this side's facts (pid, group, start time,
boot, machine), always under a temporary name that is then renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote import processes

Record = dict[str, Any]
#: What this side reads of a record; one that lacks any of it is damaged.
NEEDED = ("id", "owner", "pid", "pgid", "start_time", "boot_id", "started", "host", "port")


class Refused(Exception):
    """An answer that is an error: ``code`` is the workbook's, the rest goes to the user."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.answer = {"code": code, "message": message, **more}


def root() -> Path:
    """The folder of all runs of this user."""
    return Path.home() / ".workbook" / "runs"


def folder(run: str) -> Path:
    """The folder of one run; a run id is one plain name."""
    if not run or "/" in run or run.startswith("."):
        raise Refused("WB-SERVE-NO-RUN", f"{run!r} is no run id")
    return root() / run


def load(run: str) -> Record:
    """The record of a run.

    Raises:
        Refused: WB-SERVE-NO-RUN, with the ids that there are.
    """
    try:
        record: Record = json.loads((folder(run) / "run.json").read_text())
        if lacking := [key for key in NEEDED if not isinstance(record, dict) or key not in record]:
            raise ValueError(f"its run.json lacks {', '.join(lacking)}")
    except (OSError, ValueError) as error:
        raise Refused("WB-SERVE-NO-RUN", f"there is no run {run!r} here ({error})", known=ids()) from error
    return record


def ids() -> list[str]:
    """The ids of all runs, the oldest first."""
    if not root().is_dir():
        return []
    found = [path.parent for path in root().glob("*/run.json")]
    return [path.name for path in sorted(found, key=lambda path: (path / "run.json").stat().st_mtime)]


def write(path: Path, text: str) -> None:
    """The whole file or the old one: temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save(record: Record) -> None:
    """Write run.json."""
    write(folder(record["id"]) / "run.json", json.dumps(record, indent=1))


def note_stop(record: Record, by: str, path: Path | None = None) -> None:
    """Write down who stops a run, and when, before it is signalled: a stop that is interrupted has been one too.

    A full disk keeps nobody from stopping a server.
    """
    record["stopped"] = {"by": by, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    with contextlib.suppress(OSError):
        write(path or folder(record["id"]) / "run.json", json.dumps(record, indent=1))


def leader(record: Record) -> processes.Process | None:
    """The living process that was started for the run, or None; never another one that was given its pid."""
    return processes.same(record["pid"], record["start_time"], record["boot_id"])


def elsewhere(record: Record) -> str | None:
    """The name of the machine that a run was started on, where this is another one with the same home; else None.

    /proc tells nothing of a run there, so nobody may take it for dead. The same boot is the same machine, whatever a
    container calls itself; a name of its own is another machine even where a cloned image gave both one machine-id. A
    record without a machine is from before machines were written down: it is this one's.
    """
    there = record.get("node")
    if not isinstance(there, dict) or not there.get("name") or record["boot_id"] == processes.boot_id():
        return None
    here = processes.node()
    cloned = None in (there.get("machine_id"), here["machine_id"]) or there["machine_id"] == here["machine_id"]
    return None if there["name"] == here["name"] and cloned else str(there["name"])


def elsewhere_refused(record: Record) -> Refused:
    """What is said to whoever wants to reach a run on another machine."""
    there, here = elsewhere(record), processes.node()["name"]
    return Refused(
        "WB-SERVE-ELSEWHERE",
        f"run {record['id']} was started on {there}, and this is {here}: they share a home, and no processes",
        run=record["id"],
        node=there,
    )


def may_live(record: Record) -> bool:
    """Whether the run's server lives, or may: on another machine, with nobody having stopped it."""
    return leader(record) is not None or (elsewhere(record) is not None and not record.get("stopped"))


def state(record: Record) -> str:
    """``alive``; ``stopped``: by somebody; ``elsewhere``: another machine's, which cannot be looked at from here;
    ``dead``: by itself; or ``stranger``: dead, and its pid is another's now."""
    if leader(record):
        return "alive"
    if record.get("stopped"):
        return "stopped"
    if elsewhere(record):
        return "elsewhere"
    other = processes.find(record["pid"])
    return "stranger" if other and other.alive else "dead"


def claimed_ports() -> dict[int, str]:
    """Ports of living runs, also of those that still load and hold no socket yet."""
    return {record["port"]: record["id"] for record in readable() if leader(record)}


def readable() -> list[Record]:
    """All records, the oldest first, but for those whose run.json is damaged."""
    found = []
    for run in ids():
        with contextlib.suppress(Refused):
            found.append(load(run))
    return found


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One start at a time per user and box, so that two of them never get the same port."""
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
