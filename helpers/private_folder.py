"""A folder for unix sockets: nobody else may enter it, its path is short enough, and it is gone at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Bytes that a unix socket's path may have everywhere: 104 with the zero that ends it (Linux has 108).
LONGEST = 103
_SHORT = "/tmp"
_DRAWN = 8  # letters that the name of a temporary folder gets


@contextmanager
def private_folder(prefix: str, *, room: int) -> Iterator[Path]:
    """A new folder of mode 0700, for the time of the block.

    Args:
        prefix: how its name begins. room: bytes that a name inside may have. Where the usual temporary folder has too
            long a path for that (TMPDIR may be deep), it lies in /tmp.

    Raises:
        OSError: where it cannot be made.
    """
    usual = tempfile.gettempdir()
    fits = len(os.fsencode(usual)) + len(prefix) + _DRAWN + room + 2 <= LONGEST
    with tempfile.TemporaryDirectory(prefix=prefix, dir=usual if fits else _SHORT) as name:
        yield Path(name)
