"""Files and folders between laptop and box: what a person asks for, and the account of what was done."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.box.folders import pull_folder
from helpers.box.hashing import local_hash
from helpers.box.listing import Listing, changes, list_files
from helpers.box.meter import Meter
from helpers.box.partial import check_space
from helpers.box.pulling import Pulled, changed, pull_file
from helpers.box.pushing import plan_push, push_file
from helpers.errors import RemoteFailed, UsageError
from helpers.screen import as_typed, visible

if TYPE_CHECKING:
    from helpers.box.box import Box

SETTLED = 1.0
"""Seconds without a change after which a file counts as written; three times as many where the user chose to wait."""


@dataclass(frozen=True)
class Transfer:
    """What one pull or push did.

    Attributes:
        files, bytes: what is in place now. sent: bytes that travelled in this call.
        not_sent: bytes that did not have to: kept from a broken transfer, there already, or equal to others.
        resumed: connections that were lost and made anew. seconds: wall-clock time.
        sha256: of the file; for a folder, of the lines ``<sha256>  <path>`` in the order of the paths. None for a
            folder where it was not asked for (``digest``) and files were put together from parts checked one by one.
        verified: ``sha256`` where the box confirmed every byte, ``size`` where it has no shell to ask.
        skipped: what is no file: sockets, pipes, links that lead nowhere.
    """

    remote: str
    local: str
    files: int
    bytes: int
    sent: int
    not_sent: int
    resumed: int
    seconds: float
    sha256: str | None
    verified: str
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def pull(
    box: Box, remote: str, local: Path, *, progress: bool = True, wait: bool | float = False, digest: bool = False
) -> Transfer:
    """Fetch a file, or the files below a folder.

    Each file arrives under a temporary name, is checked by size and sha256 against the box, and then takes its place
    in one step; what was there before is whole until then. A lost connection is made anew and the transfer goes on;
    a pull that was broken off goes on where it was when it is asked for again. Tensors that several files of a folder
    share travel once. The data is not forced to disk (fsync): after a power cut, pull again.

    Args:
        remote: path on the box; ``~/`` is its home.
        local: the file's new path (in it, where it is a folder); for a folder the folder that its files go into.
        progress: say on stderr what takes long.
        wait: rather than refuse a file that still grows, wait until it does not, at most this many seconds
            (True: an hour).
        digest: for a folder, also the sha256 over all its files. Every byte is checked without it; it costs reading
            again the files whose tensors did not travel.

    Raises:
        RemoteFailed: WB-FILE-MISSING, WB-FILE-READ, WB-PULL-GROWING, WB-PULL-CHANGED. WrongResult: WB-PULL-HASH.
        UsageError: WB-DISK-FULL, WB-LOCAL-WRITE, WB-LOCAL-READ, WB-PULL-BUSY.
        BoxUnreachable: the box stayed out of reach.
    """
    started = time.monotonic()
    full = box.path(_named(remote))
    with Meter(f"pull {visible(posixpath.basename(full))}", 0, enabled=progress) as meter, _told(local):
        listing = _settled(box, full, meter, 3600.0 if wait is True else float(wait))
        meter.total = listing.total
        target = local / posixpath.basename(full) if local.is_dir() and not listing.is_folder else local
        check_space(target if listing.is_folder else target.parent, _needed(listing, target))
        if listing.is_folder:
            done = pull_folder(box, listing, target, meter)
        else:
            done = {"": pull_file(box, listing, listing.entries[0], target, meter)}
        if listing.is_folder and (differences := changes(listing, list_files(box, full))):
            raise changed(box, full, differences)
    whole = _digest(listing, target, done, digest)
    return _account(listing, str(target), done, meter, time.monotonic() - started, whole)


def push(box: Box, local: Path, remote: str, *, progress: bool = True) -> Transfer:
    """Bring a file, or the files below a folder, to the box.

    As `pull`: temporary name, size and sha256 checked on the box, then renamed into place; a lost connection is made
    anew, and a push that was broken off goes on where it was. What the box has already is not sent again.

    Args:
        local: file or folder. remote: the file's new path (in it, where it is a folder on the box); for a folder the
            folder that its files go into.

    Raises:
        UsageError: WB-PUSH-MISSING, WB-LOCAL-READ. RemoteFailed: WB-DISK-FULL, WB-FILE-WRITE, WB-PUSH-CHANGED.
        BoxUnreachable: the box stayed out of reach.
    """
    started = time.monotonic()
    with _told(local):
        there = local.exists()
    if not there:
        raise UsageError(
            "WB-PUSH-MISSING",
            f"{local} does not exist",
            expected="a file or a folder",
            next=f"ls -ld {as_typed(local.parent)}",
        )
    with Meter(f"push {visible(local.name)}", 0, enabled=progress) as meter, _told(local):
        plan = plan_push(box, local, box.path(_named(remote)))
        meter.total = plan.total
        hashes = [push_file(box, plan, item, meter) for item in plan.items]
    lines = "".join(f"{digest}  {item.name}\n" for item, digest in zip(plan.items, hashes, strict=True))
    whole = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
    return Transfer(
        remote=plan.root,
        local=str(local),
        files=len(plan.items),
        bytes=plan.total,
        sent=meter.sent,
        not_sent=max(0, plan.total - meter.sent),
        resumed=meter.resumed,
        seconds=time.monotonic() - started,
        sha256=whole if local.is_dir() else hashes[0],
        verified="sha256" if box.has_shell else "size",
        skipped=plan.skipped,
    )


def _named(remote: str) -> str:
    """The path that was given; an empty one is most likely a variable that was never set, and not the whole home."""
    if not remote:
        raise UsageError(
            "WB-USAGE",
            "the path on the box is empty",
            expected="a file or a folder; ~ is the whole home",
            next="name what is meant: a shell variable may not be set",
        )
    return remote


@contextlib.contextmanager
def _told(local: Path) -> Iterator[None]:
    """What this machine's files may refuse to a reader: an error with a code."""
    try:
        yield
    except PermissionError as error:
        path = Path(error.filename or local)
        raise UsageError(
            "WB-LOCAL-READ",
            f"{path} cannot be looked at: {error.strerror}",
            expected="files and folders of this machine that may be read",
            next=f"ls -ld {as_typed(path)}",
        ) from error


def _needed(listing: Listing, target: Path) -> int:
    """The most bytes of disk that the pull takes at any time beyond what lies there now.

    Files are replaced one after the other, and the old one goes when the new one is whole. One of the same size may
    well be the same, and is not counted.
    """
    now = peak = 0
    for entry in listing.entries:
        path = target / entry.name if entry.name else target
        part = path.with_name(f".{path.name}.part")
        old = path.stat().st_size if path.is_file() else 0
        if old == entry.size:
            continue
        now += entry.size - (part.stat().st_size if part.is_file() else 0)
        peak = max(peak, now)
        now -= old
    return peak


def _settled(box: Box, full: str, meter: Meter, patience: float) -> Listing:
    """The files at ``full``, none of which is still being written."""
    until = time.monotonic() + patience
    calm = 3 * SETTLED if patience else SETTLED
    listing = list_files(box, full)
    while listing.youngest < calm:
        # Just written: whether that goes on shows after a moment.
        time.sleep(min(calm, max(0.2, calm - listing.youngest)))
        before, listing = listing, list_files(box, full)
        differences = changes(before, listing)
        if not differences:
            break
        if time.monotonic() > until:
            raise RemoteFailed(
                "WB-PULL-GROWING",
                f"{box.name}:{full} is still being written",
                expected="files that are complete",
                next=f"workbook pull {box.name} {as_typed(full)} LOCAL --wait",
                lines=differences[:10],
            )
        meter.note(f"waits until it is written: {differences[0]}")
    return listing


def _digest(listing: Listing, target: Path, done: dict[str, Pulled], wanted: bool) -> str | None:
    if not listing.is_folder:
        return done[""].sha256
    hashes = {name: pulled.sha256 for name, pulled in done.items()}
    if wanted:
        hashes = {name: known or local_hash(target / name) for name, known in hashes.items()}
    if None in hashes.values():
        return None
    lines = "".join(f"{hashes[entry.name]}  {entry.name}\n" for entry in listing.entries)
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _account(
    listing: Listing, local: str, done: dict[str, Pulled], meter: Meter, seconds: float, digest: str | None
) -> Transfer:
    return Transfer(
        remote=listing.root,
        local=local,
        files=len(listing.entries),
        bytes=listing.total,
        sent=meter.sent,
        not_sent=listing.total - meter.sent,
        resumed=meter.resumed,
        seconds=seconds,
        sha256=digest,
        verified="size" if any(item.verified == "size" for item in done.values()) else "sha256",
        skipped=listing.skipped,
    )
