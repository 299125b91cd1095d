"""A box's file against the same file of a released wheel: local edits show at once."""

from __future__ import annotations

import difflib
import hashlib
import html
import shlex
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.box.result import printable
from helpers.errors import UsageError
from helpers.source.archaeology import read_source
from helpers.source.checkout import Checkout
from helpers.source.excerpts import shown
from helpers.source.imported import served_checkout
from helpers.source.journal import plain
from helpers.source.wheels import fetch_wheel

if TYPE_CHECKING:
    from helpers.box import Box


@dataclass(frozen=True)
class FileDiff:
    """What a box's file has that the released one has not, and the other way round.

    Attributes:
        file: relative to the checkout. version: SGLang's on the box; ``released``: of the wheel.
        box_sha256, wheel_sha256: of the two whole files. lines: a unified diff, released -> box; empty where equal.
    """

    box: str
    checkout: str
    file: str
    version: str | None
    released: str
    box_sha256: str
    wheel_sha256: str
    lines: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Byte for byte."""
        return self.box_sha256 == self.wheel_sha256

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines[2:])

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines[2:])

    def record(self) -> dict[str, Any]:
        """Ready for JSON: evidence for the ledger."""
        return {
            "kind": "source-diff",
            "box": self.box,
            "checkout": printable(self.checkout),
            "file": printable(self.file),
            "version": self.version,
            "released": self.released,
            "box_sha256": self.box_sha256,
            "wheel_sha256": self.wheel_sha256,
            "same": self.same,
            "command": shlex.join(["source.diff", self.box, printable(self.file), self.released]),
            "lines": [printable(line) for line in self.lines],
        }

    def __repr__(self) -> str:
        if self.same:
            return f"{self.file} on {self.box} is that of sglang {self.released}, byte for byte ({self.box_sha256})"
        head = f"{self.file} on {self.box} against sglang {self.released}: +{self.added} -{self.removed}"
        head += f" (sha256 {self.wheel_sha256[:16]} released, {self.box_sha256[:16]} on the box)"
        return "\n".join([head, *map(shown, self.lines)])

    def _repr_html_(self) -> str:
        from helpers.source.highlighting import diff_block

        if self.same:
            return f"<code>{html.escape(repr(self))}</code>"
        head, *_ = repr(self).split("\n")
        return f"<div><code>{html.escape(head)}</code>{diff_block([shown(line) for line in self.lines])}</div>"


def diff(
    box: Box, file: str, version: str | None = None, *, checkout: Checkout | None = None, python: str | None = None
) -> FileDiff:
    """The box's file against that of the released SGLang ``version`` (the box's own by default).

    Args:
        file: relative to the checkout; an absolute one is nobody's in a wheel.

    Raises:
        UsageError: WB-SOURCE-NOT-RELEASED where the wheel has no such file, or the version is not known;
            WB-WHEEL-FETCH. RemoteFailed: as `grep`.
    """
    checkout = checkout or served_checkout(box, python)
    released = version or checkout.version
    name = plain(file)
    if released is None or name.startswith(("/", "~")):
        raise _not_released(file, released)
    text, digest = read_source(box, file, checkout)
    with zipfile.ZipFile(fetch_wheel(f"sglang=={released}")) as wheel:
        try:
            data = wheel.read(name)
        except KeyError:
            raise _not_released(file, released) from None
    theirs = data.decode("utf-8", "surrogateescape")
    lines = difflib.unified_diff(
        theirs.splitlines(), text.splitlines(), f"sglang=={released}/{name}", f"{box.name}/{name}", lineterm=""
    )
    return FileDiff(
        box=box.name,
        checkout=checkout.root,
        file=file,
        version=checkout.version,
        released=released,
        box_sha256=digest,
        wheel_sha256=hashlib.sha256(data).hexdigest(),
        lines=tuple(lines),
    )


def _not_released(file: str, version: str | None) -> UsageError:
    return UsageError(
        "WB-SOURCE-NOT-RELEASED",
        f"there is no {printable(file)!r} in a released wheel of sglang {version or '(version not known)'}",
        expected="a file below sglang/ and a released version",
        next="name both: source.diff(box, 'sglang/srt/models/deepseek_v2.py', '0.5.9')",
    )
