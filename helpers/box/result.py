"""What a command did: its output for the caller, and a record that can become evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from helpers.box.masking import mask


@dataclass(frozen=True)
class CommandResult:
    """One finished command.

    Attributes:
        argv: the arguments as given; ``command``: the same as shell text.
        exit_status: 128 + n after signal n.
        stdout, stderr: UTF-8; other bytes are kept as surrogates, so that
            ``result.stdout.encode("utf-8", "surrogateescape")`` gives the very bytes.
        seconds: wall-clock time. bytes_stdout, bytes_stderr: lengths before decoding.
        box: the target's name. started: ISO 8601, UTC.
    """

    argv: tuple[str, ...]
    command: str
    exit_status: int
    stdout: str
    stderr: str
    seconds: float
    bytes_stdout: int
    bytes_stderr: int
    box: str
    started: str

    @property
    def ok(self) -> bool:
        return self.exit_status == 0

    def record(self) -> dict[str, Any]:
        """Everything but the output, ready for JSON, with secrets masked."""
        record = asdict(self)
        del record["stdout"], record["stderr"]
        record["command"] = mask(printable(self.command))
        # Masked as a whole line first: a secret may be an argument of its own, after the option that names it.
        record["argv"] = [printable(item) for item in masked_words(self.argv)]
        record["seconds"] = round(self.seconds, 3)
        return record


def masked_words(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments, with the values of options that name a secret (``--api-key``) masked."""
    result: list[str] = []
    for item in argv:
        before = result[-1] if result else ""
        pair = mask(f"{before} x{len(item)}") if before.startswith("-") else ""
        result.append("***" if pair.endswith("***") else item)
    return tuple(mask(item) for item in result)


def printable(text: str) -> str:
    """``text`` with bytes that are no UTF-8 shown as U+FFFD, for screens and JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
