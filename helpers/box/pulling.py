"""One file from the box, whatever happens to the link on the way."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.hashing import HashInBackground, local_hash
from helpers.box.listing import Entry, changes, list_files
from helpers.box.meter import Meter
from helpers.box.partial import Partial
from helpers.box.prefetch import Prefetched
from helpers.box.reading import read_from
from helpers.box.resuming import Resumption
from helpers.box.transient import Transient
from helpers.errors import RemoteFailed, UsageError, WorkbookError, WrongResult
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box
    from helpers.box.listing import Listing


@dataclass(frozen=True)
class Pulled:
    """One file that is now here.

    Attributes:
        sha256: None where it was put together from parts that were checked one by one.
        verified: whether the box confirmed every byte by ``sha256``, or the ``size`` only.
    """

    sha256: str | None
    verified: str


def pull_file(box: Box, listing: Listing, entry: Entry, target: Path, meter: Meter) -> Pulled:
    """Bring ``entry`` to ``target``.

    Raises:
        RemoteFailed: WB-FILE-READ, WB-PULL-CHANGED. WrongResult: WB-PULL-HASH. UsageError: WB-DISK-FULL and others.
        Transient: the box stayed out of reach; what has come is kept for the next pull.
    """
    full = listing.path(entry)
    hashing = HashInBackground(box, full) if box.has_shell and entry.size else None
    if hashing is not None and target.is_file() and target.stat().st_size == entry.size:
        here = local_hash(target)
        if here == hashing.result():
            meter.kept(entry.size)
            return Pulled(here, "sha256")
    source = f"{box.user}@{box.host}:{box.port}:{full}"
    with Partial(target, source, entry.size, entry.mtime) as partial:
        meter.kept(partial.offset)
        try:
            _all_of_it(box, full, entry, partial, meter)
            there = hashing.result() if hashing is not None else None
            here = partial.digest.hexdigest()
            if there not in (None, here):
                raise WrongResult(
                    "WB-PULL-HASH",
                    f"{box.name}:{full} did not arrive as it is there: sha256 {here}",
                    expected=str(there),
                    next="pull it again; should it happen again, look at the disks: dmesg",
                )
            if not listing.is_folder and (differences := changes(listing, list_files(box, full))):
                raise changed(box, full, differences)
        except (RemoteFailed, WrongResult) as error:
            partial.discard()
            raise why(box, listing, error) from error
        except (KeyboardInterrupt, UsageError):
            if hashing is not None:
                hashing.stop()
            raise
        partial.finish(entry.mode)
    return Pulled(here, "sha256" if hashing is not None or not entry.size else "size")


def _all_of_it(box: Box, full: str, entry: Entry, partial: Partial, meter: Meter) -> None:
    """The file's bytes, over as many connections as it takes."""
    resumption = Resumption(meter)
    while partial.offset < entry.size:
        try:
            _receive(box, full, entry, partial, resumption, meter)
        except Transient as error:
            resumption.after(error)


def _receive(box: Box, full: str, entry: Entry, partial: Partial, resumption: Resumption, meter: Meter) -> None:
    """What is missing, as far as the link holds."""
    with contextlib.closing(Prefetched(read_from(box, full, partial.offset, resumption.window))) as blocks:
        for batch in blocks:
            size = sum(map(len, batch))
            if size > entry.size - partial.offset:
                raise changed(box, full, [f"more than the {entry.size} bytes that it had"])
            partial.write(batch)
            meter.sent_now(size)
            resumption.moved()
    if partial.offset < entry.size:
        raise changed(box, full, [f"it ended after {partial.offset} of {entry.size} bytes"])


def why(box: Box, before: Listing, error: WorkbookError) -> WorkbookError:
    """``error``, or the truth behind it where the files on the box have changed meanwhile."""
    if error.code == "WB-PULL-CHANGED":
        return error
    try:
        differences = changes(before, list_files(box, before.root))
    except WorkbookError as gone:
        return changed(box, before.root, [gone.message])
    return changed(box, before.root, differences) if differences else error


def changed(box: Box, full: str, differences: list[str]) -> RemoteFailed:
    """The error for what was written to while it was pulled."""
    return RemoteFailed(
        "WB-PULL-CHANGED",
        f"{box.name}:{full} changed while it was pulled",
        expected="files that nobody writes to",
        next=f"workbook pull {box.name} {as_typed(full)} LOCAL --wait",
        lines=differences[:10],
    )
