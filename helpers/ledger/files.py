"""Files that evidence rests on: kept whole, named by what they hold, told from a changed one."""

from __future__ import annotations

import hashlib
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Literal

from helpers.ledger.records import File
from helpers.paths import DATA, ROOT

EVIDENCE = "evidence"  # the folder of what the ledger itself keeps
COARSE = 2.0  # seconds that a file system's clock may be behind
FileState = Literal["same", "changed", "missing"]


def sha256_of(path: Path) -> str:
    """The hash of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Brings a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """A file whole or not at all, also after a crash: temporary name, fsync, rename, fsync of the folder."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def keep(folder: Path, name: str, data: bytes) -> Path:
    """Saves what has no file of its own yet; the same content twice is one file.

    Args:
        folder: the investigation's. name: such as ``ladder.plotly.json``.
    """
    ending = re.search(r"(\.(plotly|table))?\.[a-z]{2,4}$", name)
    extension = ending.group() if ending else ""
    # The rest may come from a title, and a title from anywhere: it becomes one plain word.
    slug = re.sub(r"[^a-z0-9]+", "-", name.removesuffix(extension).lower()).strip("-")[:48] or "result"
    path = folder / EVIDENCE / f"{slug}-{hashlib.sha256(data).hexdigest()[:12]}{extension}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    return path


def describe(path: Path, folder: Path, sha256: str | None = None) -> File:
    """A file as evidence names it. ``sha256``: where it is known already (a capture tells those of its tensors)."""
    where = os.path.relpath(path.resolve(), folder.resolve())
    return File(path=where, sha256=sha256 or sha256_of(path), bytes=path.stat().st_size)


def locate(named: str, folder: Path) -> Path:
    """Where a file of evidence lies: as seen from the folder, else in this checkout.

    An investigation's folder may be copied to a colleague, and what its paths climb to (``../../lab/dump/data_0.pt``)
    stays behind: the checkout has it, under the longest end of that path which is there.
    """
    direct = folder / named
    if not named.startswith("../") or direct.exists():
        return direct
    ends = [Path(named.rpartition("../")[2])]
    while len(ends[-1].parts) > 2:
        ends.append(Path(*ends[-1].parts[1:]))
    found = (root / end for end in ends for root in (DATA, ROOT) if (root / end).is_file())
    return next(found, direct)


def place(named: str, folder: Path) -> str:
    """A file's path for readers elsewhere: one that climbs out of the folder tells how this machine is laid out."""
    if not named.startswith("../"):
        return named
    real = locate(named, folder).resolve()
    return f"checkout:{real.relative_to(ROOT).as_posix()}" if real.is_relative_to(ROOT) else str(real)


def look(file: File, folder: Path, *, since: str | None = None) -> FileState:
    """Whether a file still holds what it held.

    Args:
        since: ISO time of the entry; then a file of the same size that was written clearly before counts as the same
            unread. Without it every byte is read.
    """
    path = locate(file.path, folder)
    if path != folder / file.path:
        since = None  # found elsewhere: only its bytes can say that it is the same
    try:
        stat = path.stat()
        if stat.st_size != file.bytes:
            return "changed"
        if since is not None and stat.st_mtime < datetime.fromisoformat(since).timestamp() - COARSE:
            return "same"
        return "same" if sha256_of(path) == file.sha256 else "changed"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "changed"
