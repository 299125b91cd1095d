"""Bytes that are here already, copied from file to file; on file systems that can, shared instead."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from helpers.box.partial import Partial, local_problem

_UNSUPPORTED = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP)


def copy_within(path: Path, offset: int, target: Partial, target_offset: int, length: int) -> None:
    """Copy ``length`` bytes of the file ``path`` into ``target``.

    Raises:
        UsageError: WB-DISK-FULL, WB-LOCAL-WRITE; also where ``path`` is shorter than thought.
    """
    try:
        with path.open("rb", buffering=0) as source:
            while length > 0:
                done = _some(source.fileno(), offset, target.file.fileno(), target_offset, length)
                if done == 0:
                    raise OSError(errno.EIO, f"{path} is shorter than it was")
                offset, target_offset, length = offset + done, target_offset + done, length - done
    except OSError as error:
        raise local_problem(target.target, error) from error


def _some(source: int, source_offset: int, target: int, target_offset: int, length: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, length, source_offset, target_offset)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return os.pwrite(target, os.pread(source, min(length, 1 << 22), source_offset), target_offset)
