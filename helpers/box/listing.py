"""What lies at a path of the box: sizes and times, before a byte travels and again when all have."""

from __future__ import annotations

import posixpath
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paramiko

from helpers.box import sftp
from helpers.errors import RemoteFailed
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box

MISSING = 44
# One line for the clock and the kind of $1, then per file: type, size, mtime, mode and the path below $1. Links are
# followed, as the files of a model are often links into a cache; one that leads nowhere has the type l.
_SCRIPT = r"""
[ -e "$1" ] || exit 44
if [ -d "$1" ]; then k=d; else k=f; fi
printf '%s %s\n' "$(date +%s.%N)" $k
exec find -L "$1" ! -type d -printf '%y\t%s\t%T@\t%m\t%P\0'
"""


@dataclass(frozen=True)
class Entry:
    """A file: its path below the root ("" for the root itself), bytes, modification time and mode bits."""

    name: str
    size: int
    mtime: str
    mode: int


@dataclass(frozen=True)
class Listing:
    """All files at ``root``, in order of their names.

    Attributes:
        is_folder: whether root is one. skipped: sockets, pipes, devices, and links that lead nowhere.
        youngest: seconds since the last change of any file, by the box's own clock.
    """

    root: str
    is_folder: bool
    entries: tuple[Entry, ...]
    skipped: tuple[str, ...]
    youngest: float

    @property
    def total(self) -> int:
        return sum(entry.size for entry in self.entries)

    def path(self, entry: Entry) -> str:
        return posixpath.join(self.root, entry.name) if entry.name else self.root


def list_files(box: Box, full: str) -> Listing:
    """The files at the absolute path ``full``.

    Raises:
        RemoteFailed: WB-FILE-MISSING; WB-FILE-LIST where part of it may not be read.
    """
    if not box.has_shell:
        return box.session.retry(lambda: _over_sftp(box, full))
    result = box.run(["/bin/sh", "-c", _SCRIPT, "list", full], check=False, idempotent=True)
    if result.exit_status == MISSING:
        raise missing(box.name, full)
    if not result.ok:
        raise RemoteFailed(
            "WB-FILE-LIST",
            f"not all of {box.name}:{full} can be listed",
            expected="folders that may all be read",
            next=f"workbook run {box.name} -- find -L {as_typed(full)} -ls",
            lines=result.stderr.splitlines()[-5:],
        )
    head, _, rest = result.stdout.partition("\n")
    clock, kind = head.split()
    entries, skipped = [], []
    for item in rest.split("\0")[:-1]:
        what, size, mtime, mode, name = item.split("\t", 4)
        if what == "f":
            entries.append(Entry(name, int(size), mtime, int(mode, 8)))
        else:
            skipped.append(name)
    return _listing(box.name, full, kind == "d", entries, skipped, float(clock))


def _listing(name: str, full: str, is_folder: bool, entries: list[Entry], skipped: list[str], now: float) -> Listing:
    if not is_folder and not entries:
        raise RemoteFailed(
            "WB-FILE-READ",
            f"{name}:{full} is no ordinary file: a device, a pipe or a socket",
            expected="a file with an end, or a folder",
            next=f"workbook run {name} -- ls -ld {as_typed(full)}",
        )
    entries.sort(key=lambda entry: entry.name)
    youngest = min((now - float(entry.mtime) for entry in entries), default=float("inf"))
    return Listing(full, is_folder, tuple(entries), tuple(sorted(skipped)), youngest)


def _over_sftp(box: Box, full: str) -> Listing:
    with sftp.open_sftp(box.session) as client:
        try:
            attributes = client.stat(full)
        except OSError as error:
            raise missing(box.name, full, str(error)) from error
        is_folder = stat.S_ISDIR(attributes.st_mode or 0)
        entries: list[Entry] = []
        skipped: list[str] = []
        if is_folder:
            _walk(client, full, "", entries, skipped)
        elif stat.S_ISREG(attributes.st_mode or stat.S_IFREG):
            entries.append(_entry("", attributes))
        # The box's clock cannot be asked; ours stands in for it.
        return _listing(box.name, full, is_folder, entries, skipped, time.time())


def _walk(client: paramiko.SFTPClient, root: str, below: str, entries: list[Entry], skipped: list[str]) -> None:
    for item in client.listdir_attr(posixpath.join(root, below)):
        name = posixpath.join(below, item.filename)
        try:
            attributes = client.stat(posixpath.join(root, name))
        except OSError:
            skipped.append(name)
            continue
        mode = attributes.st_mode or 0
        if stat.S_ISDIR(mode):
            _walk(client, root, name, entries, skipped)
        elif stat.S_ISREG(mode):
            entries.append(_entry(name, attributes))
        else:
            skipped.append(name)


def _entry(name: str, attributes: paramiko.SFTPAttributes) -> Entry:
    mode = (attributes.st_mode or 0o644) & 0o7777
    return Entry(name, attributes.st_size or 0, str(attributes.st_mtime or 0), mode)


def changes(before: Listing, after: Listing) -> list[str]:
    """What differs between two listings of the same root, in words."""
    old, new = ({entry.name: entry for entry in listing.entries} for listing in (before, after))
    lines = [f"{name or before.root}: gone" for name in old if name not in new]
    for name, entry in new.items():
        was = old.get(name)
        if was is None:
            lines.append(f"{name}: new, {entry.size} bytes")
        elif was.size != entry.size:
            lines.append(f"{name or before.root}: {was.size} -> {entry.size} bytes")
        elif was.mtime != entry.mtime:
            lines.append(f"{name or before.root}: written to meanwhile")
    return lines


def missing(name: str, full: str, why: str = "") -> RemoteFailed:
    """The error for a path that leads to nothing."""
    return RemoteFailed(
        "WB-FILE-MISSING",
        f"there is no {name}:{full}" + (f" ({why})" if why else ""),
        expected="a file or folder that exists and may be read",
        next=f"workbook run {name} -- ls -ld {as_typed(posixpath.dirname(full))}",
    )
