"""A folder from the box in one stream, in which what several files share travels once (remote/sending.py)."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.arriving import Arriving
from helpers.box.execution import Execution
from helpers.box.frames import BrokenStream, Data, End, FrameReader, Plan
from helpers.box.hashing import local_hash, remote_hashes
from helpers.box.listing import Listing
from helpers.box.meter import Meter
from helpers.box.prefetch import Prefetched
from helpers.box.pulling import Pulled, pull_file, why
from helpers.box.resuming import Resumption
from helpers.box.transient import Transient
from helpers.errors import RemoteFailed, WrongResult

if TYPE_CHECKING:
    from helpers.box.box import Box

_OPEN_AT_ONCE = 16
_COPIERS = 2


def pull_folder(box: Box, listing: Listing, target: Path, meter: Meter) -> dict[str, Pulled]:
    """Bring all files of ``listing`` below ``target``; what lies there already, byte for byte, is left alone.

    Raises: as `helpers.box.pulling.pull_file`.
    """
    target.mkdir(parents=True, exist_ok=True)
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
    """The state of one folder's stream, over as many connections as it takes."""

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
        self.sent: deque[Arriving] = deque()
        self.said = b""

    def pull(self) -> None:
        while self.queue:
            try:
                self._stream()
            except Transient as error:
                self.resumption.after(error)
            except BrokenStream as error:
                failed = RemoteFailed(
                    "WB-PULL-STREAM",
                    f"{self.box.name} stopped sending {self.listing.root}: {error}",
                    expected="all files of the folder",
                    next=f"workbook pull {self.box.name} {self.listing.root} LOCAL",
                    lines=self.said.decode(errors="replace").splitlines()[-5:],
                )
                raise why(self.box, self.listing, failed) from error
        self._settle(0)

    def _stream(self) -> None:
        """Files as far as the link holds."""
        request = {
            "root": self.listing.root,
            "files": [entry.name for entry in self.listing.entries],
            "want": list(self.queue),
            "skip": [self.queue[0], *self._file(self.queue[0]).have()],
        }
        execution = Execution(
            self.box.session,
            ["python3", "-E", "-s", "-S", "-m", "remote.sending"],
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

    def _take(self, record: Plan | Data | End, reader: FrameReader) -> None:
        if isinstance(record, Plan):
            self._begin(record)
            return
        if record.file != self.queue[0] or (file := self.arriving[record.file]).plan is None:
            raise BrokenStream(f"file {record.file} out of turn")
        if isinstance(record, Data):
            for piece in reader.take(record.count):
                file.write(piece)
                self.meter.sent_now(len(piece))
                self.resumption.moved()
        else:
            file.sent()
            self._check(file, record.sha256)
            self.sent.append(self.arriving.pop(self.queue.popleft()))
            self._settle(_OPEN_AT_ONCE)

    def _file(self, index: int) -> Arriving:
        if index not in self.arriving:
            target = self.target / self.listing.entries[index].name
            self.arriving[index] = Arriving(self.box, self.listing, index, target, self.pool)
        return self.arriving[index]

    def _begin(self, plan: Plan) -> None:
        file = self._file(plan.file)
        fresh = file.plan is None
        self.meter.kept(file.begin(plan))
        for segment in plan.segments if fresh else ():
            if segment.source < 0:
                continue
            source = self.arriving.get(segment.source)
            if source is not None:
                source.give(file, segment)
            else:
                file.copy(self._where(segment.source), 0, 1 << 62, segment)

    def _where(self, index: int) -> Path:
        """Where a file lies all of whose bytes are here."""
        name = self.listing.entries[index].name
        return self.target / name if name in self.done else self._sent(index).partial.part

    def _sent(self, index: int) -> Arriving:
        return next(file for file in self.sent if file.index == index)

    def _check(self, file: Arriving, digest: str) -> None:
        if digest != file.digest.hexdigest():
            file.partial.discard()
            raise WrongResult(
                "WB-PULL-HASH",
                f"{self.box.name}:{self.listing.path(file.entry)} did not arrive as it is there: "
                f"sha256 {file.digest.hexdigest()}",
                expected=digest,
                next="pull it again; should it happen again, look at the disks: dmesg",
            )

    def _settle(self, most: int) -> None:
        """Give files their names, oldest first, until at most ``most`` are left open."""
        while len(self.sent) > most:
            self.done[self.sent[0].entry.name] = Pulled(self.sent[0].finish(), "sha256")
            self.sent.popleft()

    def close(self) -> None:
        for file in (*self.sent, *self.arriving.values()):
            file.wait()
        for file in (*self.sent, *self.arriving.values()):
            file.leave()
