"""sha256 beside the data: by the box, over a channel of its own, while the bytes travel."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.box.execution import Execution
from helpers.box.transient import Transient
from helpers.errors import RemoteFailed, WorkbookError
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box

_HASH = re.compile(r"\\?([0-9a-f]{64})\b")
# openssl uses the processor's own SHA instructions, which Debian's sha256sum does not: 1800 against 380 MB/s here.
_SCRIPT = r"""
if command -v openssl >/dev/null 2>&1; then exec xargs -0 -r openssl dgst -sha256 -r
else exec xargs -0 -r sha256sum --; fi
"""


def remote_hashes(box: Box, paths: Sequence[str]) -> list[str]:
    """The sha256 of files on the box, in order; asked again when the link breaks.

    Raises:
        RemoteFailed: WB-FILE-READ where one of them cannot be read.
    """
    return box.session.retry(lambda: _answer(box, paths, _ask(box, paths)))


def _ask(box: Box, paths: Sequence[str]) -> Execution:
    return box.execute(["/bin/sh", "-c", _SCRIPT], stdin="".join(f"{path}\0" for path in paths))


def _answer(box: Box, paths: Sequence[str], execution: Execution) -> list[str]:
    said = {"out": b"", "err": b""}
    with contextlib.closing(execution.events()) as events:
        for name, block in events:
            said[name] += block
    # A name with a newline spreads over two lines of openssl's; a hash is 64 hex digits at the start of one.
    hashes = [found[1] for line in said["out"].decode(errors="replace").splitlines() if (found := _HASH.match(line))]
    if execution.exit_status or len(hashes) != len(paths):
        raise RemoteFailed(
            "WB-FILE-READ",
            f"{box.name} cannot read all of {len(paths)} files to hash them",
            expected="files that exist and may be read",
            next=f"workbook run {box.name} -- ls -l {as_typed(paths[0]) if paths else ''}",
            lines=said["err"].decode(errors="replace").splitlines()[-5:],
        )
    return hashes


class HashInBackground:
    """`remote_hashes` of one file in a thread, started at once.

    Where the link breaks before the box is done, it is asked anew when the result is wanted, and not before: on a
    link that breaks often the box would else begin with the file again and again.
    """

    def __init__(self, box: Box, path: str) -> None:
        self._box, self._path = box, path
        self._execution = _ask(box, [path])
        self._result: str | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="box-hash", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._result = _answer(self._box, [self._path], self._execution)[0]
        except Transient:
            pass
        except (WorkbookError, OSError) as error:
            self._error = error

    def stop(self) -> None:
        """End it on the box too: nobody wants the result any more."""
        if self._thread.is_alive():
            self._execution.kill()

    def result(self) -> str:
        """The hash, waiting for it; or the error that came instead."""
        while self._thread.is_alive():
            self._thread.join(0.2)  # in steps, so that Ctrl-C is heard
        if self._error is not None:
            raise self._error
        if self._result is None:
            self._result = remote_hashes(self._box, [self._path])[0]
        return self._result


def local_hash(path: Path) -> str:
    """The sha256 of a file of this machine."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
