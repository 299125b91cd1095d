"""Loading of files that nobody vouches for: whole, checksums right, tensors only, mapped where that can be."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from helpers.errors import UsageError


def load_tensors(path: Path, *, check: bool = True) -> Any:
    """``torch.load`` of a file, gzipped or not. Mapped where torch can, so that only what is used is read.

    Args:
        path: of a file that ``torch.save`` wrote.
        check: hold its records against their checksums, which reads it whole; once a file is enough.
    """
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return load(path, io.BytesIO(unzipped(path)), mapped=False)
    if not magic or (magic == b"PK\x03\x04" and not zipfile.is_zipfile(path)):
        raise UsageError(
            "WB-DUMP-TRUNCATED",
            f"{path} ends after {path.stat().st_size} bytes, before its archive's directory",
            expected="a whole file of torch.save",
            next="copy the file again from where it was written",
        )
    if check:
        check_sums(path)
    return load(path, path, mapped=zipfile.is_zipfile(path))


def load(path: Path, source: Path | io.BytesIO, *, mapped: bool) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a foreign pickle's protocol: refused below, in our words
            return torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise UsageError(
            "WB-DUMP-UNSAFE",
            f"{path} needs more than tensors to open: {needed(error)}",
            expected="tensors, lists, dicts, numbers and text only; anything else is code of an unknown origin",
            next="write the sample again with plain tensors",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            "WB-DUMP-FOREIGN",
            f"{path} ({path.stat().st_size} bytes) cannot be read: {why}",
            expected="a file of torch.save",
            next="copy the file again from where it was written",
        ) from error


def needed(error: pickle.UnpicklingError) -> str:
    """What a file asks for beside tensors. torch's own text goes on to advise opening it all the same: that is cut."""
    found = re.search(r"GLOBAL ([\w.]+)|Unsupported (operand \d+)|(persistent id)", str(error))
    return next(filter(None, found.groups()), "") if found else "a pickle that is none of torch.save's"


def unzipped(path: Path) -> bytes:
    """The content of a gzip file, its checksum and length held against its end."""
    try:
        with gzip.open(path) as file:
            return file.read()
    except EOFError as error:
        raise UsageError(
            "WB-DUMP-TRUNCATED",
            f"{path} ends after {path.stat().st_size} bytes, before the end of its gzip stream",
            expected="a whole gzip file",
            next="copy the file again from where it was written",
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(
            "WB-DUMP-CORRUPT",
            f"{path}: its gzip stream, from offset 0, does not unpack to its checksum: {error}",
            expected="the bytes that were written",
            next="copy the file again from where it was written",
        ) from error


def check_sums(path: Path) -> None:
    """Hold each record of an archive against its checksum, which torch itself does not look at."""
    if not zipfile.is_zipfile(path):
        return  # an older file of torch.save: it has none
    with zipfile.ZipFile(path) as archive:
        bad = [info for info in archive.infolist() if not intact(archive, info)]
        # All of them wrong: written with torch.serialization.set_crc32_options(False).
        if bad and len(bad) < len(archive.infolist()):
            raise UsageError(
                "WB-DUMP-CORRUPT",
                f"{path}: record {bad[0].filename} at offset {bad[0].header_offset} does not match its checksum",
                expected="the bytes that torch.save wrote",
                next="copy the file again from where it was written",
            )


def intact(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    try:
        with archive.open(info) as record:
            while record.read(1 << 22):
                pass
    except (zipfile.BadZipFile, zlib.error):
        return False
    return True
