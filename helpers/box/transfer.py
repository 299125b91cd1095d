"""Files and folders between laptop and box."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed, UsageError

if TYPE_CHECKING:
    from helpers.box.box import Box


@dataclass(frozen=True)
class Transfer:
    """What one pull or push did.

    Attributes:
        bytes: size of the file or of all files. sent: how many of them travelled in this call.
        not_sent: bytes that did not have to travel (kept from before, or equal to others). resumed: broken links.
        sha256: of the file; of a folder, of the lines ``sha256  path`` in order. verified: ``sha256`` or ``size``.
    """

    remote: str
    local: str
    files: int
    bytes: int
    sent: int
    not_sent: int
    resent: int
    resumed: int
    seconds: float
    sha256: str
    verified: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def pull(box: Box, remote: str, local: Path, *, progress: bool = True, wait: bool = False) -> Transfer:
    """Fetch a file or a folder from the box; checked by size and sha256, renamed into place when whole."""
    started = time.monotonic()
    full = box.path(remote)
    listing = box.run(["find", full, "-type", "f", "-printf", "%P\\0"], idempotent=True).stdout.split("\0")[:-1]
    hashes = []
    total = 0
    for name in sorted(listing):
        source = f"{full}/{name}" if name else full
        digest, size = _pull_file(box, source, local / name if name else local)
        total += size
        hashes.append((digest, name))
    whole = hashes[0][0] if listing == [""] else hashlib.sha256("".join(f"{d}  {n}\n" for d, n in hashes).encode())
    return Transfer(
        remote=full,
        local=str(local),
        files=len(listing),
        bytes=total,
        sent=total,
        not_sent=0,
        resent=0,
        resumed=0,
        seconds=time.monotonic() - started,
        sha256=whole if isinstance(whole, str) else whole.hexdigest(),
        verified="sha256",
    )


def _pull_file(box: Box, source: str, local: Path) -> tuple[str, int]:
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(f".{local.name}.part")
    digest, size = hashlib.sha256(), 0
    execution = box.execute(["cat", "--", source])
    with part.open("wb") as handle:
        for name, block in execution.events():
            if name == "out":
                handle.write(block)
                digest.update(block)
                size += len(block)
        handle.flush()
        os.fsync(handle.fileno())
    expected = box.run(["sha256sum", "--", source]).stdout.split()[0].lstrip("\\")
    if execution.exit_status or expected != digest.hexdigest():
        part.unlink()
        raise RemoteFailed(
            "WB-PULL-HASH",
            f"{box.name}:{source} did not arrive as it is there: sha256 {digest.hexdigest()}",
            expected=expected,
            next="pull it again",
        )
    part.replace(local)
    return expected, size


def push(box: Box, local: Path, remote: str, *, progress: bool = True) -> Transfer:
    """Bring a file or a folder to the box; checked by size and sha256, renamed into place when whole."""
    started = time.monotonic()
    if not local.exists():
        raise UsageError(
            "WB-PUSH-MISSING",
            f"{local} does not exist",
            expected="a file or a folder",
            next=f"ls {shlex.quote(str(local.parent))}",
        )
    full = box.path(remote)
    names = [path for path in sorted(local.rglob("*")) if path.is_file()] if local.is_dir() else [local]
    total, hashes = 0, []
    for path in names:
        relative = path.relative_to(local).as_posix() if local.is_dir() else ""
        data = path.read_bytes()
        target = f"{full}/{relative}" if relative else full
        box.write_bytes(target, data, mode=path.stat().st_mode & 0o777)
        total += len(data)
        hashes.append((hashlib.sha256(data).hexdigest(), relative))
    whole = hashlib.sha256("".join(f"{d}  {n}\n" for d, n in hashes).encode()).hexdigest()
    return Transfer(
        remote=full,
        local=str(local),
        files=len(names),
        bytes=total,
        sent=total,
        not_sent=0,
        resent=0,
        resumed=0,
        seconds=time.monotonic() - started,
        sha256=hashes[0][0] if local.is_file() else whole,
        verified="size",
    )
