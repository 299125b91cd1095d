"""A file of JSON lines that a killed process leaves whole: each line is on the disk before the next step is taken.

What was done is known by its lines, so that a run goes on where it was cut. A last line that was torn by a kill or a
full disk is dropped, and what it stood for is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.errors import UsageError
from helpers.library_errors import why


class Journal:
    """JSON lines, appended one by one by one process at a time. A context manager.

    Attributes:
        rows: all lines, those that were there before and those appended. torn: bytes of a torn last line, now dropped.
    """

    def __init__(self, path: Path) -> None:
        """Open a journal, or begin one.

        Raises:
            UsageError: WB-RESUME-BUSY (another process has it), WB-RESUME-ROWS (a line inside it is damaged),
                WB-RESUME-FOLDER (it cannot be written).
        """
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.torn = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+", buffering=0)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            self._lock()
            self._read()
            sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line; when this returns it is on the disk.

        Raises:
            UsageError: WB-RESUME-FOLDER (a full disk); the line counts as torn.
        """
        data = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        try:
            while data:  # a raw file may take less than it is given
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.rows.append(dict(row))

    def close(self) -> None:
        self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                "WB-RESUME-BUSY",
                f"another process is writing {self.path}",
                expected="one process at a time in one folder",
                next="wait for it, or give another --out",
            ) from error

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        lines = data.split(b"\n")
        whole, tail = lines[:-1], lines[-1]
        for number, line in enumerate(whole, start=1):
            try:
                row = json.loads(line.decode("utf-8", "surrogatepass"))
                if not isinstance(row, dict):
                    raise ValueError("no JSON object")
            except ValueError as error:
                if number == len(whole) and not tail:  # torn, and its newline came through
                    tail = line + b"\n"
                    break
                raise _damaged(self.path, number, line, error) from error
            self.rows.append(row)
        if tail:
            self.torn = len(tail)
            os.ftruncate(self._file.fileno(), len(data) - len(tail))
            os.fsync(self._file.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def claim(path: Path, settings: Mapping[str, Any], *, schema: str) -> bool:
    """Bind a folder to its settings, once; whether it was bound to the same before.

    Args:
        path: the file of the settings. settings: what results depend on, ready for JSON.

    Raises:
        UsageError: WB-RESUME-SETTINGS, with the settings that differ.
    """
    wanted = {"schema": schema, "settings": json.loads(json.dumps(settings))}
    if not path.exists():
        write_whole(path, json.dumps(wanted, indent=2, ensure_ascii=False) + "\n")
        return False
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        differing = differences(stored["settings"], wanted["settings"])
        if stored["schema"] != schema:
            differing = [f"schema: {stored['schema']!r} there, {schema!r} now"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        differing = [f"{path.name} cannot be read: {why(error)}"]
    if differing:
        raise UsageError(
            "WB-RESUME-SETTINGS",
            f"{path.parent} holds results of other settings; {len(differing)} differ",
            expected="the settings that it was begun with",
            next="give another --out, or the settings as they were",
            lines=differing[:12],
        )
    return True


def differences(there: Any, now: Any, where: str = "") -> list[str]:
    """What differs between two JSON values, by its place.

    >>> differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
    ['b.c: 2 there, 3 now']
    """
    if isinstance(there, dict) and isinstance(now, dict):
        keys = [*there, *(key for key in now if key not in there)]
        return [
            said
            for key in keys
            for said in differences(there.get(key), now.get(key), f"{where}.{key}" if where else key)
        ]
    return [] if there == now else [f"{where}: {there!r} there, {now!r} now"]


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all: a temporary name, the disk, then its own name.

    Raises:
        UsageError: WB-RESUME-FOLDER.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def sync_folder(folder: Path) -> None:
    """Names of new files on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, number: int, line: bytes, error: ValueError) -> UsageError:
    return UsageError(
        "WB-RESUME-ROWS",
        f"line {number} of {path} is damaged ({error}): {line[:80]!r}",
        expected="JSON objects, one a line; only the last may be torn",
        next=f"take line {number} out (what it stood for is done again), or give another --out",
    )


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        "WB-RESUME-FOLDER",
        f"{path} cannot be written: {error.strerror or error}",
        expected="a folder that can be written, with room left",
        next="make room and run the same command again: it goes on where it was; or give another --out",
    )
