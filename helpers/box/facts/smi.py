"""How nvidia-smi speaks: tables as comma-separated values, placeholders for what it cannot tell, and last words."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from helpers.box.facts.answer import Absent, Answer, absent_program, failed, shown, unreadable
from helpers.errors import RemoteFailed

NO_DEVICE = "No devices were found"
# What stands where there is nothing to tell. Any other text in brackets, and ERR!, is a fault of the GPU.
NOTHING = frozenset(
    {
        "",
        "N/A",
        "Not Supported",
        "Not Found",
        "Not Available",
        "Insufficient Permissions",
        "Requested functionality has been deprecated",
    }
)
ALIASES = {"gpu_name": "name", "used_memory": "used_gpu_memory"}

_DRIVER = re.compile(
    r"Failed to initialize NVML|NVIDIA-SMI has failed because|NVIDIA-SMI couldn.t (?:find|communicate)"
    r"|.*libnvidia-ml\.so"
)
_LOST = re.compile(r"Unable to determine the device handle|GPU is lost|fallen off the bus")
_WARNING = re.compile(r"(?i)warning:|infoROM is corrupted")
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ?[A-Za-z%]+)?")


@dataclass(frozen=True)
class Row:
    """One row: ``cells`` by column name (without units), and the number of its line, from 1."""

    number: int
    cells: dict[str, str]


def refused(fact: str, answer: Answer) -> Absent | None:
    """Whether nvidia-smi answered at all.

    Returns:
        Absent without nvidia-smi, and where it sees no GPU.

    Raises:
        RemoteFailed: WB-FACT-GPU-DRIVER, WB-FACT-TIMEOUT; WB-FACT-FAILED for any other failure without a table.
    """
    missing = absent_program(fact, answer)
    if missing is not None:
        return missing
    for line in answer.said:
        if line.strip() == NO_DEVICE:
            return Absent(absent="nvidia-smi is there, and sees no GPU")
        if _DRIVER.match(line):
            raise RemoteFailed(
                "WB-FACT-GPU-DRIVER",
                f"{fact}: nvidia-smi cannot talk to the driver: {shown([line])[0]}",
                expected="a loaded driver of the same version as its libraries",
                next="ask whoever runs the box: after an update of the driver it wants a restart",
                lines=shown(answer.said[:5]),
            )
    return None


def table(
    fact: str, answer: Answer, required: Collection[str], last: str | None = None
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of a ``--format=csv`` answer, and the lines in it that tell of a fault.

    Args:
        required: columns without which the answer is not understood.
        last: a column whose text may hold commas (nvidia-smi quotes nothing).

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line; WB-FACT-GPU-LOST, WB-FACT-FAILED where there is no table.
    """
    wanted = "a header with the columns " + ", ".join(sorted(required))
    faults: list[str] = []
    rows: list[Row] = []
    names: list[str] | None = None
    for number, line in enumerate(answer.lines, 1):
        if not line.strip():
            continue
        if tells_fault(line):
            faults.append(shown([line.strip()])[0])
        elif names is None:
            names = [_name(cell) for cell in line.split(",")]
            if not set(required) <= set(names):
                if answer.exit_status:
                    raise failed(fact, answer, "a table of comma-separated values")
                raise unreadable(fact, answer, number, wanted)
        else:
            cells = _cells(line, names, last)
            if cells is None:
                raise unreadable(fact, answer, number, f"{len(names)} values, as in the header")
            rows.append(Row(number, cells))
    if names is None:
        if faults:
            raise _lost(fact, faults)
        if answer.exit_status:
            raise failed(fact, answer, "a table of comma-separated values")
        raise unreadable(
            fact, answer, len(answer.lines) + 1, "a header with the columns " + ", ".join(sorted(required))
        )
    return rows, tuple(faults)


def tells_fault(line: str) -> bool:
    """Whether a line between the others tells of a GPU that could not be asked, or warns of one."""
    return bool(_LOST.search(line) or _WARNING.match(line))


def text(cell: str | None) -> str | None:
    """A cell's text; None where it tells nothing."""
    return None if cell is None or _bare(cell) in NOTHING or fault(cell) else cell


def fault(cell: str | None) -> str | None:
    """The fault that a cell tells of: ``ERR!``, ``[Unknown Error]``, ``[GPU requires reset]``."""
    if cell is None or _bare(cell) in NOTHING:
        return None
    return cell if cell == "ERR!" or (cell.startswith("[") and cell.endswith("]")) else None


def number(fact: str, answer: Answer, row: Row, column: str) -> float | None:
    """A number, whatever its unit; None where there is none to tell.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE.
    """
    cell = text(row.cells.get(column))
    if cell is None:
        return None
    match = _NUMBER.fullmatch(cell)
    if match is None:
        raise unreadable(fact, answer, row.number, f"a number as {column}, not {cell!r}")
    return float(match[1])


def whole(fact: str, answer: Answer, row: Row, column: str) -> int | None:
    """The same, as a whole number."""
    value = number(fact, answer, row, column)
    if value is not None and value != int(value):
        raise unreadable(fact, answer, row.number, f"a whole number as {column}, not {row.cells[column]!r}")
    return None if value is None else int(value)


def _lost(fact: str, faults: list[str]) -> RemoteFailed:
    return RemoteFailed(
        "WB-FACT-GPU-LOST",
        f"{fact}: nvidia-smi reports a lost GPU, and none of the others: {faults[0]}",
        expected="a row for each GPU",
        next="workbook run BOX -- dmesg; look for Xid and NVRM; the box wants a restart",
        lines=faults,
    )


def _cells(line: str, names: list[str], last: str | None) -> dict[str, str] | None:
    cells = [cell.strip() for cell in line.split(",")]
    surplus = len(cells) - len(names)
    if surplus > 0 and last in names:
        at = names.index(last)
        cells[at : at + surplus + 1] = [", ".join(cells[at : at + surplus + 1])]
    return dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None


def _name(cell: str) -> str:
    name = re.sub(r"\s*\[[^\]]*\]$", "", cell.strip())
    return ALIASES.get(name, name)


def _bare(cell: str) -> str:
    return cell[1:-1] if cell.startswith("[") and cell.endswith("]") else cell
