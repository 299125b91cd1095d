"""Opening a dump: which files, which format, and how many slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from helpers.errors import UsageError
from helpers.nearest import did_you_mean
from helpers.screen import as_typed
from helpers.tensors.dumps import (
    captures,
    eagle,
    safetensor_files,
    sglang_files,
    specforge,
    speculators_v0,
    speculators_v1,
)
from helpers.tensors.dumps.loading import load_tensors
from helpers.tensors.dumps.sample import Dump, Sample, States, sample_of
from helpers.tensors.places import listed, met, way_out


class DictFormat(Protocol):
    """A format whose files are a dict that ``torch.save`` wrote, one sample a file."""

    NAME: str
    NORMED_VERIFIER: bool | None

    def matches(self, data: dict[str, Any]) -> bool: ...
    def read(self, path: Path, data: dict[str, Any]) -> States: ...


MODULES: tuple[DictFormat, ...] = (specforge, speculators_v1, speculators_v0, eagle)
DICTS = {module.NAME: module for module in MODULES}
SAFETENSORS = (safetensor_files.SPECULATORS, safetensor_files.VLLM)
FORMATS = (*SAFETENSORS, *DICTS, sglang_files.DUMPER, sglang_files.TENSOR_DUMP, captures.NAME)
ENDINGS = (".pt", ".ckpt", ".ckpt.gz", ".pt.gz", ".safetensors")


def read_dump(path: Path | str, *, format: str | None = None, slots: int | None = None) -> Dump:
    """Open a dump: a folder of sample files, or one of them.

    Args:
        path: the folder (searched with its subfolders), or a file.
        format: one of `FORMATS`, where the files leave it open or are to be held against it.
        slots: K of the served feed or of the drafter; tells formats apart that hold the same.

    Raises:
        UsageError: with a code ``WB-DUMP-...`` or ``WB-TENSORS-...`` that names the file and what was expected.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise UsageError(
            "WB-USAGE",
            f"--format {format!r} is no format of a dump",
            expected="one of " + ", ".join(FORMATS),
            next=did_you_mean(format, FORMATS, "workbook inspect PATH"),
        )
    if not path.exists():
        raise UsageError(
            "WB-DUMP-MISSING",
            met(path, "dump", "no samples"),
            expected="a folder of sample files, or one of them",
            next=way_out(path, "dump", ""),
        )
    if (path / "capture.json").is_file() and format in (None, captures.NAME):
        return captures.open_capture(path)
    files = files_of(path)
    sglang = sglang_files.passes(files) if format in (None, sglang_files.DUMPER, sglang_files.TENSOR_DUMP) else None
    if sglang is not None:
        return open_passes(path, *sglang)
    return open_files(path, files, format, slots)


def files_of(path: Path) -> tuple[Path, ...]:
    """The sample files of a folder, in their order; data_2 comes before data_10."""
    if path.is_file():
        return (path,)
    inside = (file for file in path.rglob("*") if file.name.endswith(ENDINGS) and file.is_file())
    files = tuple(sorted(inside, key=lambda file: [natural(part) for part in file.relative_to(path).parts]))
    if not files:
        raise UsageError(
            "WB-DUMP-MISSING",
            met(path, "dump", f"no file that ends in {', '.join(ENDINGS)}"),
            expected="sample files as a trainer writes them, or a capture",
            next=way_out(path, "dump", f"ls {as_typed(path)}"),
        )
    return files


def natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def open_files(path: Path, files: tuple[Path, ...], format: str | None, slots: int | None) -> Dump:
    """A dump of one sample a file."""
    kind = format or kind_of(files[0], slots)
    first = read_file(files[0], kind)
    _, width, hidden = first.shape
    checked: set[int] = {0}

    def opener(index: int) -> Sample:
        file = files[index]
        if kind in SAFETENSORS and format is None and kind_of(file, slots) != kind:
            raise mixed(file, kind, files[0])
        states = read_file(file, kind, check=index not in checked)
        checked.add(index)
        return sample_of(states, file, partial(read_file, file, kind, check=False))

    normed = DICTS[kind].NORMED_VERIFIER if kind in DICTS else False if kind == safetensor_files.SPECULATORS else None
    said = speculators_v1.warnings(first) if kind == speculators_v1.NAME else ()
    return Dump(path, kind, files, width, hidden, first.dtype, opener, len(files), normed, said)


def kind_of(file: Path, slots: int | None) -> str:
    if file.suffix == ".safetensors":
        return safetensor_files.which(file, slots)
    data = load_tensors(file)
    if isinstance(data, dict):
        found = [name for name, module in DICTS.items() if module.matches(data)]
        if found:
            return found[0]
    raise foreign(file, data)


def read_file(file: Path, kind: str, *, check: bool = True) -> States:
    if kind in SAFETENSORS:
        return safetensor_files.read(file, verifier=kind == safetensor_files.SPECULATORS)
    data = load_tensors(file, check=check)
    module = DICTS.get(kind)
    if module is None or not isinstance(data, dict) or not module.matches(data):
        raise foreign(file, data, kind)
    return module.read(file, data)


def foreign(file: Path, data: Any, kind: str | None = None) -> UsageError:
    keys = listed(data, most=12) if isinstance(data, dict) else f"a {type(data).__name__}"
    return UsageError(
        "WB-DUMP-FOREIGN",
        f"{file} holds {keys}",
        expected=f"a sample of {kind}" if kind else f"a sample of one of {', '.join(FORMATS)}",
        next="leave files that are no samples out of the folder",
    )


def mixed(file: Path, kind: str, first: Path) -> UsageError:
    return UsageError(
        "WB-DUMP-FOREIGN",
        f"{file} is of another format than {first.name}, which is {kind}",
        expected=f"files of {kind} only",
        next="leave files of other writers out of the folder, or say --format",
    )


def open_passes(path: Path, kind: str, passes: Sequence[sglang_files.Pass]) -> Dump:
    """One of SGLang's own dumps: its samples are the requests that a pass starts."""
    places: list[tuple[sglang_files.Pass, int]] = []
    first: States | None = None
    for one in passes:
        found = sglang_files.read(kind, one)
        first = first or (found[0] if found else None)
        places += [(one, i) for i in range(len(found))]
    if first is None:
        raise UsageError(
            "WB-DUMP-SHAPE",
            f"{path} holds {len(passes)} passes, and none starts a request at its first token",
            expected="at least one prefill among the passes",
            next="dump again while a prompt is sent",
        )
    _, width, hidden = first.shape

    def look(index: int) -> States:
        one, number = places[index]
        return sglang_files.read(kind, one)[number]

    def opener(index: int) -> Sample:
        again: Callable[[], States] = partial(look, index)
        return sample_of(look(index), places[index][0].ranks[0][0], again)

    files = tuple(one.ranks[0][0] for one, _ in places)
    said = (sglang_files.NO_TOKENS,) if int(first.token_ids[0]) < 0 else ()
    normed = True if first.verifier is not None else None
    ranks = len(passes[0].ranks)
    return Dump(path, kind, files, width, hidden, first.dtype, opener, len(places), normed, said, ranks)
