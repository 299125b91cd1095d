"""Bytes that are here already, copied inside the kernel (on some file systems shared, not copied)."""

from __future__ import annotations

import errno
import os

_UNSUPPORTED = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP)


def copy_range(source: int, source_offset: int, target: int, target_offset: int, length: int) -> None:
    """Copy ``length`` bytes between open files; closes ``source``.

    Raises:
        OSError: as the file system says; EIO where the source is shorter than thought.
    """
    try:
        while length > 0:
            done = _some(source, source_offset, target, target_offset, length)
            if done == 0:
                raise OSError(errno.EIO, "the file to copy from is shorter than it was")
            source_offset, target_offset, length = source_offset + done, target_offset + done, length - done
    finally:
        os.close(source)


def _some(source: int, source_offset: int, target: int, target_offset: int, length: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, length, source_offset, target_offset)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return os.pwrite(target, os.pread(source, min(length, 1 << 22), source_offset), target_offset)
