"""A folder from the box in one stream, in which what several files share travels once (remote/sending.py)."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.arriving import Arriving
from helpers.box.copying import copy_within
from helpers.box.execution import Execution
from helpers.box.frames import Begin, Block, BrokenStream, End, FrameReader
from helpers.box.hashing import local_hash, remote_hashes
from helpers.box.listing import Listing
from helpers.box.meter import Meter
from helpers.box.partial import local_problem
from helpers.box.prefetch import Prefetched
from helpers.box.pulling import Pulled, pull_file, why
from helpers.box.resuming import Resumption
from helpers.box.transient import Transient
from helpers.box_python import BARE, another, chosen
from helpers.errors import RemoteFailed, WrongResult
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box

_COPIERS = 2
_PASSING = 16
"""Blocks of a MiB on their way to other files at most."""


def pull_folder(box: Box, listing: Listing, target: Path, meter: Meter) -> dict[str, Pulled]:
    """Bring all files of ``listing`` below ``target``; what lies there already, byte for byte, is left alone.

    Raises: as `helpers.box.pulling.pull_file`.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise local_problem(target, error) from error
    done = _already_here(box, listing, target, meter)
    wanted = [entry for entry in listing.entries if entry.name not in done]
    code = _code(box) if len(wanted) > 1 and box.has_shell else None
    if code is None:
        for entry in wanted:
            done[entry.name] = pull_file(box, listing, entry, target / entry.name, meter)
        return done
    with ThreadPoolExecutor(_COPIERS, thread_name_prefix="box-copy") as pool:
        folder = _Folder(box, listing, target, meter, pool, code, done)
        try:
            folder.pull()
        finally:
            folder.close()
    return done


def _already_here(box: Box, listing: Listing, target: Path, meter: Meter) -> dict[str, Pulled]:
    same_size = [
        entry
        for entry in listing.entries
        if (path := target / entry.name).is_file() and path.stat().st_size == entry.size
    ]
    if not same_size or not box.has_shell:
        return {}
    there = remote_hashes(box, [listing.path(entry) for entry in same_size])
    done = {}
    for entry, digest in zip(same_size, there, strict=True):
        if local_hash(target / entry.name) == digest:
            done[entry.name] = Pulled(digest, "sha256")
            meter.kept(entry.size)
    return done


def _code(box: Box) -> str | None:
    """The folder of our code on the box; None where no Python runs there (then every file travels by itself)."""
    from helpers.uploads import upload

    try:
        return upload(box)
    except RemoteFailed:
        return None


class _Folder:
    """The state of one folder's stream, over as many connections as it takes.

    A block that is sent for one file and belongs into seven more is written to all eight while it is in memory, to the
    others by the pool's threads; what was here before the stream began is copied within the disk.
    """

    def __init__(
        self,
        box: Box,
        listing: Listing,
        target: Path,
        meter: Meter,
        pool: ThreadPoolExecutor,
        code: str,
        done: dict[str, Pulled],
    ) -> None:
        self.box, self.listing, self.target, self.meter, self.pool, self.code = box, listing, target, meter, pool, code
        self.done = done
        self.resumption = Resumption(meter)
        self.queue = deque(i for i, entry in enumerate(listing.entries) if entry.name not in done)
        self.arriving: dict[int, Arriving] = {}
        self.passing: deque[Future[None]] = deque()
        self.passed = 0
        self.said = b""

    def pull(self) -> None:
        while self.queue:
            try:
                self._stream()
            except Transient as error:
                self.resumption.after(error)
            except BrokenStream as error:
                if another(self.box, chosen(self.box)) is not None:
                    continue
                failed = RemoteFailed(
                    "WB-PULL-STREAM",
                    f"{self.box.name} stopped sending {self.listing.root}: {error}",
                    expected="all files of the folder",
                    next=f"workbook pull {self.box.name} {as_typed(self.listing.root)} LOCAL",
                    lines=self.said.decode(errors="replace").splitlines()[-5:],
                )
                raise why(self.box, self.listing, failed) from error

    def _stream(self) -> None:
        """Files as far as the link holds."""
        request = {
            "root": self.listing.root,
            "files": [entry.name for entry in self.listing.entries],
            "want": list(self.queue),
            "passed": self.passed,
            "skip": [self.queue[0], *self._file(self.queue[0]).have()],
        }
        execution = Execution(
            self.box.session,
            [chosen(self.box), *BARE, "-m", "remote.sending"],
            cwd=self.code,
            stdin=json.dumps(request).encode(),
            login_shell=self.box.login_shell,
            window=self.resumption.window,
        )
        try:
            with contextlib.closing(Prefetched(execution.blocks())) as blocks:
                reader = FrameReader(blocks)
                while self.queue:
                    self._take(reader.record(), reader)
        finally:
            self.said = execution.stderr_tail

    def _take(self, record: Begin | Block | End, reader: FrameReader) -> None:
        if isinstance(record, Block) and record.is_here:
            self._copy(record)
            return
        if record.file != self.queue[0]:
            raise BrokenStream(f"file {record.file} out of turn")
        if isinstance(record, Begin):
            self.passed = record.file
            self.meter.kept(self._file(record.file).begin(record))
        elif isinstance(record, Block):
            self._receive(record, reader)
        else:
            self._end(record)

    def _file(self, index: int) -> Arriving:
        if index not in self.arriving:
            target = self.target / self.listing.entries[index].name
            self.arriving[index] = Arriving(self.box, self.listing, index, target)
        return self.arriving[index]

    def _takers(self, block: Block) -> list[tuple[Arriving, int]]:
        """The other files that ``block`` belongs into, and where."""
        takers = []
        for index, offset in block.also:
            if index not in self.queue or offset + block.count > self.listing.entries[index].size:
                raise BrokenStream(f"a block for file {index} at {offset}")
            file = self._file(index)
            file.scatter()
            takers.append((file, offset))
        return takers

    def _receive(self, block: Block, reader: FrameReader) -> None:
        file, takers, pieces = self._file(block.file), self._takers(block), []
        if block.offset + block.count > file.entry.size:
            raise BrokenStream(f"a block for file {block.file} at {block.offset}")
        try:
            for piece in reader.take(block.count):
                pieces.append(piece)
                self.meter.sent_now(len(piece))
                self.resumption.moved()
        finally:  # also what came of it before the link broke
            for taker, offset in takers:
                self._pass(taker.partial.write_at, pieces, offset)
            file.write(pieces, block.offset)
            self.meter.kept(len(takers) * sum(map(len, pieces)))

    def _copy(self, block: Block) -> None:
        path = self._where(block.file)
        for taker, offset in self._takers(block):
            self._pass(copy_within, path, block.offset, taker.partial, offset, block.count)
        self.meter.kept(len(block.also) * block.count)

    def _where(self, index: int) -> Path:
        """Where a file lies whose beginning or all is here."""
        name = self.listing.entries[index].name
        return self.target / name if name in self.done else self._file(index).partial.part

    def _pass(self, work: Callable[..., None], *arguments: object) -> None:
        """Have the pool do it; waits while much is waiting there, which bounds the memory."""
        self.passing.append(self.pool.submit(work, *arguments))
        self._passed(_PASSING)

    def _passed(self, most: int) -> None:
        while len(self.passing) > most:
            self.passing.popleft().result()

    def _end(self, record: End) -> None:
        self._passed(0)
        file = self._file(record.file)
        if record.sha256 != file.digest.hexdigest():
            file.partial.discard()
            raise WrongResult(
                "WB-PULL-HASH",
                f"{self.box.name}:{self.listing.path(file.entry)} did not arrive as it is there: "
                f"sha256 {file.digest.hexdigest()}",
                expected=record.sha256,
                next="pull it again; should it happen again, look at the disks: dmesg",
            )
        self.done[file.entry.name] = Pulled(file.finish(), "sha256")
        del self.arriving[self.queue.popleft()]
        self.passed = record.file + 1

    def close(self) -> None:
        for work in self.passing:
            work.cancel()
        wait(self.passing)  # they write to files that are closed next
        for file in self.arriving.values():
            file.leave()
