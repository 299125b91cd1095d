"""The arm file of the capture hook (remote/taps.py): ``python3 -m remote.arming OP``, a JSON request on standard input.

Every request names the file (``arm``). ``arm`` makes it with ``order``; ``renew``, ``disarm`` and ``discard`` touch
only that of the capture which they name. The file lapses ``order["seconds"]`` after its last renewal, by this machine's
clock, so that a laptop that dies or is cut off leaves no hook that writes until the disk is full. Standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# How long chunks of passes that were under way may still come in after a disarming, in seconds.
LATE = 2.0


def arm(request: dict[str, Any]) -> dict[str, Any]:
    """``{"armed": true}``, or ``{"armed": false, "by", "capture"}`` of the capture that is under way."""
    path, order = Path(request["arm"]), request["order"]
    with locked(path.parent):
        other = read(path)
        if path.exists() and not lapsed(path, other):
            return {"armed": False, "by": other.get("by"), "capture": other.get("capture")}
        drop(path, other)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            part.write_text(json.dumps(order))
            touch(part)
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
    return {"armed": True}


def renew(request: dict[str, Any]) -> dict[str, Any]:
    """``{"renewed": false}`` where the arm file is no longer this capture's."""
    path = Path(request["arm"])
    with locked(path.parent):
        mine = read(path).get("capture") == request["capture"]
        if mine:
            touch(path)
    return {"renewed": mine}


def disarm(request: dict[str, Any]) -> dict[str, Any]:
    """``{"disarmed": false}`` where the arm file is another capture's, or gone already."""
    path = Path(request["arm"])
    with locked(path.parent):
        mine = read(path).get("capture") == request["capture"]
        if mine:
            path.unlink()
    return {"disarmed": mine}


def discard(request: dict[str, Any]) -> dict[str, Any]:
    """Remove a capture that came to nothing, with what passes under way still write to it."""
    folder = Path(request["arm"]).parent / Path(request["capture"]).name
    until = time.monotonic() + LATE
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > until:
            return {"discarded": not folder.exists()}
        time.sleep(0.1)


def drop(path: Path, order: dict[str, Any]) -> None:
    """Remove an arm file that lapsed, and the chunks that nobody came for."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    folder = Path(order.get("directory") or "/").parent
    if folder.parent == path.parent and not (folder / "capture.json").exists():
        shutil.rmtree(folder, ignore_errors=True)


def read(path: Path) -> dict[str, Any]:
    """The order in an arm file; an empty one where there is none, or none that can be read."""
    try:
        order = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return order if isinstance(order, dict) else {}


def lapsed(path: Path, order: dict[str, Any]) -> bool:
    """Whether nobody renewed the file in time; a file that says no time never lapses."""
    seconds = order.get("seconds")
    try:
        return seconds is not None and time.time() - path.stat().st_mtime > seconds
    except OSError:
        return True


def touch(path: Path) -> None:
    """Date the file by this machine's own clock: the file server of a home may have another."""
    now = time.time()
    os.utime(path, (now, now))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time for each run; the lock is on its folder, so that no file of its own stays."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


OPERATIONS = {"arm": arm, "renew": renew, "disarm": disarm, "discard": discard}


def main(operation: str) -> None:
    """Answer one request."""
    try:
        answer = OPERATIONS[operation](json.load(sys.stdin))
    except OSError as error:
        answer = {"error": {"code": "WB-SERVE-FILES", "message": str(error)}}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
