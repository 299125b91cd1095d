"""Files of a checkout read and replaced on the box, with a journal of what was done: ``python3 -m remote.editing OP``.

A replacement happens only while the file still is what the asking side saw (its sha256), only with a text that compiles
(Python) or parses (JSON), whole or not at all, and it keeps the file's mode and owner. Journal:
``~/.workbook/patches/journal.jsonl``, one JSON object a line, append-only. An application is written there before the
files change and a revert after, so that a power cut in between loses no way back. Standard library only, Python 3.9 or
later.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote import processes, relying, runs


def read(request: dict[str, Any]) -> dict[str, Any]:
    """The files at ``paths`` (absolute), the journal, since when (in seconds since 1970) ``pids`` run, and the living
    runs that ``patch`` (``{"name", "root"}``) on these files matters to."""
    asked = request.get("patch")
    return {
        "files": {path: _file(Path(path)) for path in request["paths"]},
        "journal": journal(),
        "processes": [_process(pid) for pid in request.get("pids", [])],
        "relying": relying.relying(asked["name"], asked["root"], request["paths"]) if asked else [],
    }


def write(request: dict[str, Any]) -> dict[str, Any]:
    """Replace ``files`` (``[{path, expect, data}]``, data in base64), all or none, and append ``entry`` to the journal.

    Returns ``{"done": true}``, or ``{"error": {...}}`` when a file is not what was expected or cannot be written, or
    when a living run relies on it (without ``force``). No run begins meanwhile: the lock is theirs too.
    """
    try:
        with _locked(), runs.locked():
            paths = [file["path"] for file in request["files"]]
            needed = relying.relying(request["entry"].get("patch", ""), request["entry"].get("root", ""), paths)
            if needed and not request.get("force"):
                return {"error": {"code": "WB-PATCH-IN-USE", "message": "a living run relies on it", "runs": needed}}
            return _write(request)
    except OSError as error:  # a home without room for the journal: what cannot be taken back does not go in
        return _refused("WB-PATCH-WRITE", f"{error.filename}: {error.strerror}; nothing was changed")


def _write(request: dict[str, Any]) -> dict[str, Any]:
    olds: list[tuple[Path, bytes]] = []
    for file in request["files"]:
        path = Path(file["path"])
        try:
            old = path.read_bytes()
        except (OSError, ValueError) as error:
            return _refused("WB-PATCH-WRITE", f"{path}: {getattr(error, 'strerror', None) or error}")
        if hashlib.sha256(old).hexdigest() != file["expect"]:
            return _refused("WB-PATCH-RACE", f"{path} was changed by somebody else in this moment")
        if problem := _problem(path, base64.b64decode(file["data"])):
            return _refused("WB-PATCH-SYNTAX", f"{path} would not be read any more: {problem}; nothing was changed")
        olds.append((path, old))
    done: list[tuple[Path, bytes]] = []
    entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **request["entry"]}
    first = request["entry"].get("action") == "apply"
    try:
        if first:
            _append(json.dumps(entry))
        for file, (path, old) in zip(request["files"], olds):  # noqa: B905 - Python 3.9
            _replace(path, base64.b64decode(file["data"]))
            done.append((path, old))
        if not first:
            _append(json.dumps(entry))
    except OSError as error:
        for path, old in done:
            _replace(path, old)
        if first:
            with contextlib.suppress(OSError):
                _append(json.dumps({**entry, "action": "undone"}))
        return _refused("WB-PATCH-WRITE", f"{error.filename}: {error.strerror}; nothing was changed")
    return {"done": True}


def _folder() -> Path:
    return Path.home() / ".workbook" / "patches"


def _file(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            return {"missing": "it is no file"}  # A pipe or a device would never end.
        data = path.read_bytes()
        changed = path.stat().st_mtime
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        return {"missing": getattr(error, "strerror", None) or str(error)}
    return {"sha256": hashlib.sha256(data).hexdigest(), "data": base64.b64encode(data).decode(), "changed": changed}


def _process(pid: int) -> dict[str, Any]:
    """Since when a process runs, and of which run of ours it is (None: of none)."""
    found = processes.find(pid)
    if found is None:
        return {"pid": pid, "since": None, "run": None, "command": ""}
    with open("/proc/stat") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    since = boot + found.start / os.sysconf("SC_CLK_TCK")
    return {"pid": pid, "since": since, "run": processes.run_of(pid), "command": found.command}


def _problem(path: Path, data: bytes) -> str:
    """Why a file would not be read any more with that content; empty where it would, or where nobody can tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix == ".py":
                compile(data, str(path), "exec", dont_inherit=True)
            elif path.suffix == ".json":
                json.loads(data)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError as error:
        return str(error)
    return ""


def journal() -> list[dict[str, Any]]:
    """The entries that can be read; the last line may be half of one after a power cut."""
    entries = []
    with contextlib.suppress(OSError):
        for line in (_folder() / "journal.jsonl").read_text().splitlines():
            with contextlib.suppress(ValueError):
                if isinstance(entry := json.loads(line), dict):
                    entries.append(entry)
    return entries


def journal_of(root: str) -> list[dict[str, Any]]:
    """The journal's entries on one checkout."""
    return [entry for entry in journal() if entry.get("root") == root]


def digest(path: str) -> str | None:
    """A file's sha256, None where it cannot be read."""
    return _file(Path(path)).get("sha256")


def _append(line: str) -> None:
    with open(_folder() / "journal.jsonl", "a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, data: bytes) -> None:
    # A link stays a link: what it points to is replaced.
    path = Path(os.path.realpath(path))
    old = path.stat()
    # Under the lock a part can only be left over from a process that was killed.
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        left.unlink(missing_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), old.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    _folder().mkdir(parents=True, exist_ok=True)
    with open(_folder() / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _refused(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


if __name__ == "__main__":
    answer = {"read": read, "write": write}[sys.argv[1]](json.load(sys.stdin))
    print(json.dumps(answer))
