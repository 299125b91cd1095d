"""Training dumps behind one interface: samples of token ids and of the K slots that the drafter was trained on.

Here: the reader of speculators v1 (one ``*.pt`` a sample: input_ids, loss_mask, hidden_states = list of K+1 [L, H], of
which the last is the verifier's own state, as speculators' ``standardize_data_v1`` takes it). Formats are told by what
the files hold. Files are loaded with ``weights_only=True``: one that needs more is refused, never opened as a pickle.
"""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from helpers.errors import UsageError

Slots = Float[Tensor, "T K H"]


@dataclass(frozen=True)
class Sample:
    """One sample of a dump, in the dtype of the file.

    ``verifier`` is the state that training takes for the target's output, None where the format has none.
    ``stored_ids`` are layer ids that the file itself names, None where it names none.
    """

    token_ids: Int64[Tensor, " T"]
    slots: Slots
    verifier: Float[Tensor, "T H"] | None
    loss_mask: Bool[Tensor, " T"] | None
    stored_ids: tuple[int, ...] | None
    source: Path


@dataclass(frozen=True)
class Dump:
    """A dump on disk. Iterating reads one sample after the other; the whole is never in memory."""

    path: Path
    format: str
    files: tuple[Path, ...]
    slots: int
    hidden_size: int
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Sample]:
        for file in self.files:
            yield self._checked(read_speculators_v1(file))

    def __getitem__(self, index: int) -> Sample:
        return self._checked(read_speculators_v1(self.files[index]))

    def _checked(self, sample: Sample) -> Sample:
        if sample.slots.shape[1:] != (self.slots, self.hidden_size):
            raise UsageError(
                "WB-DUMP-SHAPE",
                f"{sample.source} has {sample.slots.shape[1]} slots of {sample.slots.shape[2]}",
                expected=f"{self.slots} slots of {self.hidden_size}, as in {self.files[0].name}",
                next="leave files of other runs out of the folder",
            )
        return sample


def read_dump(path: Path | str) -> Dump:
    """Open a training dump: a folder of sample files, or one such file.

    Raises:
        UsageError: with a code ``WB-DUMP-...`` that names the file and what was expected.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(
            "WB-DUMP-MISSING",
            f"{path} does not exist",
            expected="a folder of sample files, or one of them",
            next=f"ls {path.parent}",
        )
    files = (path,) if path.is_file() else tuple(sorted(path.glob("*.pt"), key=natural))
    if not files:
        raise UsageError(
            "WB-DUMP-MISSING",
            f"{path} holds no *.pt file",
            expected="sample files as speculators v1 writes them",
            next=f"ls {path}",
        )
    first = read_speculators_v1(files[0])
    return Dump(path, "speculators-v1", files, first.slots.shape[1], first.slots.shape[2], first.slots.dtype)


def natural(path: Path) -> tuple[tuple[int, str], ...]:
    """Sort key: data_2 before data_10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name) if part)


def read_speculators_v1(path: Path) -> Sample:
    """Read one ``*.pt`` sample of speculators v1."""
    data = load_tensors(path)
    states = data.get("hidden_states") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(states, list) or "input_ids" not in data:
        keys = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise UsageError(
            "WB-DUMP-FOREIGN",
            f"{path} holds {keys}",
            expected="input_ids, loss_mask, and hidden_states as a list of K+1 tensors [L, H] (speculators v1)",
            next=f"workbook inspect {path.parent}",
        )
    ids, mask = data["input_ids"], data.get("loss_mask")
    length = len(ids) if isinstance(ids, Tensor) and ids.dim() == 1 else -1
    good = [isinstance(s, Tensor) and s.is_floating_point() and s.dim() == 2 and len(s) == length for s in states]
    if length < 1 or len(states) < 2 or not all(good) or len({(s.shape[1], s.dtype) for s in states}) > 1:
        shapes = [list(s.shape) if isinstance(s, Tensor) else type(s).__name__ for s in states]
        raise UsageError(
            "WB-DUMP-SHAPE",
            f"{path} has {length if length >= 0 else 'no row of'} input_ids and hidden_states {shapes}",
            expected="at least one token, and two or more states [tokens, hidden] of one width and dtype",
            next="write the sample again; one with no tokens is to be left out",
        )
    if mask is not None and (not isinstance(mask, Tensor) or mask.shape != ids.shape):
        raise UsageError(
            "WB-DUMP-SHAPE",
            f"{path} has {length} input_ids and a loss_mask of {getattr(mask, 'shape', type(mask).__name__)}",
            expected=f"a loss_mask [{length}]",
            next="write the sample again",
        )
    return Sample(
        token_ids=ids.long(),
        slots=torch.stack(states[:-1], dim=1),
        verifier=states[-1],
        loss_mask=None if mask is None else mask.bool(),
        stored_ids=None,
        source=path,
    )


def load_tensors(path: Path) -> Any:
    """``torch.load`` of a file that nobody vouches for."""
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic or (magic == b"PK\x03\x04" and not zipfile.is_zipfile(path)):
        raise UsageError(
            "WB-DUMP-TRUNCATED",
            f"{path} ends after {path.stat().st_size} bytes, before its archive's directory",
            expected="a whole file of torch.save",
            next="copy the file again from where it was written",
        )
    check_sums(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a foreign pickle's protocol: refused below, in our words
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            "WB-DUMP-UNSAFE",
            f"{path} needs more than tensors to open: {str(error).splitlines()[0][:200]}",
            expected="tensors, lists, dicts, numbers and text only; anything else is code of an unknown origin",
            next="write the sample again with plain tensors",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise UsageError(
            "WB-DUMP-FOREIGN",
            f"{path} ({path.stat().st_size} bytes) cannot be read: {str(error).splitlines()[0][:200]}",
            expected="a file of torch.save",
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
