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
from helpers.box.frames import BrokenStream, FrameReader
from helpers.box.hashing import local_hash, remote_hashes
from helpers.box.listing import Listing
from helpers.box.meter import Meter
from helpers.box.pulling import Pulled, changed, pull_file, why
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
        self.current: Arriving | None = None
        self.pending: deque[Arriving] = deque()
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
        first = self._file(self.queue[0])
        request = {
            "root": self.listing.root,
            "files": [entry.name for entry in self.listing.entries],
            "want": list(self.queue),
            "skip": [self.queue[0], *first.have()],
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
            with contextlib.closing(execution.blocks()) as blocks:
                reader = FrameReader(blocks)
                while self.queue:
                    file = self._file(self.queue[0])
                    self._receive(reader, file)
                    self.queue.popleft()
                    self.current = None
                    self.pending.append(file)
                    self._settle(_OPEN_AT_ONCE)
        finally:
            self.said = execution.stderr_tail

    def _file(self, index: int) -> Arriving:
        if self.current is None:
            entry = self.listing.entries[index]
            self.current = Arriving(self.box, self.listing, entry, index, self.target / entry.name)
        return self.current

    def _receive(self, reader: FrameReader, file: Arriving) -> None:
        frame = reader.frame()
        if frame.file != file.index or frame.size != file.entry.size:
            raise changed(self.box, self.listing.root, [f"{file.entry.name}: {frame.size} bytes"])
        kept = file.begin(frame, self.pool, self._where)
        self.meter.kept(kept)
        for piece in reader.take(frame.own - frame.skip):
            file.write(piece)
            self.meter.sent_now(len(piece))
            self.resumption.moved()
        digest = reader.line().get("sha256")
        if digest != file.digest.hexdigest():
            file.partial.discard()
            raise WrongResult(
                "WB-PULL-HASH",
                f"{self.box.name}:{self.listing.path(file.entry)} did not arrive as it is there: "
                f"sha256 {file.digest.hexdigest()}",
                expected=str(digest),
                next="pull it again; should it happen again, look at the disks: dmesg",
            )

    def _settle(self, most: int) -> None:
        """Give files their names, oldest first, until at most ``most`` are left open."""
        while len(self.pending) > most:
            file = self.pending[0]
            twin = file.frame.is_copy_of() if file.frame is not None else -1
            known = self.listing.entries[twin] if twin >= 0 else None
            same = known is not None and known.size == file.entry.size
            digest = file.finish(self.done[known.name].sha256 if known is not None and same else None)
            self.done[file.entry.name] = Pulled(digest, "sha256")
            self.pending.popleft()

    def _where(self, index: int) -> Path:
        """Where the bytes of file ``index`` lie now."""
        entry = self.listing.entries[index]
        if entry.name in self.done:
            return self.target / entry.name
        return next(file.partial.part for file in self.pending if file.index == index)

    def close(self) -> None:
        for file in (*self.pending, *([self.current] if self.current else [])):
            file.leave()
