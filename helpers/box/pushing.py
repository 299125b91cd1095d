"""Files to the box, whatever happens to the link on the way."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from helpers.box import sftp
from helpers.box.execution import Execution, is_lost
from helpers.box.hashing import local_hash, remote_hashes
from helpers.box.listing import list_files
from helpers.box.meter import Meter, human
from helpers.box.resuming import Resumption
from helpers.box.transient import Transient, lost
from helpers.errors import RemoteFailed
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box

_BLOCK = 1 << 20
_SHORT, _WRONG = 75, 76

# $1 a path on the box: its kind (d, f or -), its size, and the bytes free on the disk that it is or would be on.
_LOOK = r"""
k=-; n=0
if [ -d "$1" ]; then k=d; elif [ -e "$1" ]; then k=f; n=$(wc -c <"$1"); fi
p=$1; while [ ! -e "$p" ]; do p=${p%/*}; p=${p:-/}; done
echo $k $n $(stat -L -f -c '%a %S' -- "$p")
"""
# $1 part, $2 target, $3 size, $4 sha256, $5 bytes that are there already, $6 mode. The bytes are written at their own
# place, not appended: an earlier session that has not noticed its end yet writes the same bytes to the same places.
_RECEIVE = r"""
d=${2%/*}; mkdir -p -- "${d:-/}" || exit
dd of="$1" bs=1M seek="$5" oflag=seek_bytes conv=notrunc iflag=fullblock status=none ||
  { s=$?; rm -f -- "$1"; exit $s; }
n=$(wc -c <"$1")
[ "$n" -ge "$3" ] || exit 75
if command -v openssl >/dev/null 2>&1; then h=$(openssl dgst -sha256 -r "$1"); else h=$(sha256sum -- "$1"); fi
h=${h#\\}
[ "${h%% *}" = "$4" ] || { rm -f -- "$1"; exit 76; }
chmod "$6" "$1" && mv -f -- "$1" "$2"
"""


@dataclass(frozen=True)
class Item:
    """One file to send: its path here, its path below the root there, and its size here."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True)
class Plan:
    """What goes where. ``there`` are the sizes of the files that lie on the box already, by name."""

    root: str
    items: tuple[Item, ...]
    there: dict[str, int]
    skipped: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(item.size for item in self.items)

    def target(self, item: Item) -> str:
        return posixpath.join(self.root, item.name) if item.name else self.root


def plan_push(box: Box, local: Path, full: str) -> Plan:
    """Look at both sides, and refuse what will not fit.

    Raises:
        RemoteFailed: WB-DISK-FULL, before a byte has travelled.
    """
    kind, size, free = _look(box, full)
    items, skipped = [], []
    if local.is_dir():
        os.scandir(local).close()
        for path in sorted(local.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                os.scandir(path).close()  # PermissionError: rglob passes over what it may not list
            name = path.relative_to(local).as_posix()
            if path.is_file():
                items.append(Item(path, name, path.stat().st_size))
            elif not path.is_dir():
                skipped.append(name)
        there = {entry.name: entry.size for entry in list_files(box, full).entries} if kind == "d" else {}
    else:
        if kind == "d":
            full = posixpath.join(full, local.name)
            kind, size, free = _look(box, full)
        items.append(Item(local, "", local.stat().st_size))
        there = {"": size} if kind == "f" else {}
    plan = Plan(full, tuple(items), there, tuple(skipped))
    needed = sum(item.size for item in items if there.get(item.name) != item.size)
    if free is not None and needed > free:
        raise RemoteFailed(
            "WB-DISK-FULL",
            f"{human(needed)} do not fit on the disk of {box.name}:{full}, which has {human(free)} left",
            expected=f"{human(needed)} of free space",
            next=f"workbook run {box.name} -- df -h {as_typed(posixpath.dirname(full))}",
        )
    return plan


def _look(box: Box, full: str) -> tuple[str, int, int | None]:
    """Kind of ``full`` on the box (d, f, -), its size, and the bytes free there (None where it cannot be asked)."""
    if box.has_shell:
        kind, size, blocks, block = box.run(["/bin/sh", "-c", _LOOK, "look", full], idempotent=True).stdout.split()
        return kind, int(size), int(blocks) * int(block)
    with sftp.open_sftp(box.session) as client:
        try:
            attributes = client.stat(full)
        except OSError:
            return "-", 0, None
        return "d" if stat.S_ISDIR(attributes.st_mode or 0) else "f", attributes.st_size or 0, None


def push_file(box: Box, plan: Plan, item: Item, meter: Meter) -> str:
    """Send one file; returns its sha256.

    Raises:
        RemoteFailed: WB-FILE-WRITE, WB-PUSH-CHANGED. Transient: the box stayed out of reach.
    """
    target, digest = plan.target(item), local_hash(item.path)
    if box.has_shell and plan.there.get(item.name) == item.size and remote_hashes(box, [target]) == [digest]:
        meter.kept(item.size)
        return digest
    # Named by its content: what lies under this name is a beginning of this very file.
    part = f"{posixpath.dirname(target).rstrip('/')}/.{posixpath.basename(target)[:200]}.{digest[:16]}.part"
    resumption = Resumption(meter)
    base, first = meter.done, True
    while True:
        try:
            # A small file is sent at once: to ask whether some of it is there would take longer.
            offset = 0 if first and item.size < _BLOCK else box.session.retry(lambda: _look(box, part)[1])
            offset = min(offset, item.size)
            meter.rewind(base + offset)
            _send(box, item, part, target, digest, offset, meter)
            return digest
        except Transient as error:
            first = False
            resumption.after(error)


def _send(box: Box, item: Item, part: str, target: str, digest: str, offset: int, meter: Meter) -> None:
    with item.path.open("rb"):
        pass  # PermissionError here, where it is told
    blocks = _blocks(item.path, offset, item.size, meter)
    mode = stat.S_IMODE(item.path.stat().st_mode)
    if not box.has_shell:
        _send_sftp(box, blocks, part, target, offset, mode)
        return
    arguments = [part, target, str(item.size), digest, str(offset), f"{mode:o}"]
    argv = ["/bin/sh", "-c", _RECEIVE, "receive", *arguments]
    execution = Execution(box.session, argv, stdin=blocks, login_shell=box.login_shell)
    said = b""
    with contextlib.closing(execution.events()) as events:
        for _, block in events:
            said = (said + block)[-4096:]
    if execution.exit_status in (_SHORT, _WRONG):
        raise RemoteFailed(
            "WB-PUSH-CHANGED",
            f"{item.path} did not arrive as it was when the push began",
            expected=f"{item.size} bytes with sha256 {digest}",
            next="stop what writes to it, and push again",
        )
    if execution.exit_status:
        raise RemoteFailed(
            "WB-FILE-WRITE",
            f"{box.name}:{target} could not be written ({item.size} bytes); what was there before is untouched",
            expected="a folder that may be written to, with room for the file",
            next=f"workbook run {box.name} -- df -h {as_typed(posixpath.dirname(target))}",
            lines=said.decode(errors="replace").splitlines()[-5:],
        )


def _blocks(path: Path, offset: int, size: int, meter: Meter) -> Iterator[bytes]:
    """The file from ``offset``; at most to the size that it had."""
    with path.open("rb") as file:
        file.seek(offset)
        while offset < size and (block := file.read(min(_BLOCK, size - offset))):
            yield block
            offset += len(block)
            meter.sent_now(len(block))


def _send_sftp(box: Box, blocks: Iterator[bytes], part: str, target: str, offset: int, mode: int) -> None:
    with sftp.open_sftp(box.session) as client:
        try:
            sftp.make_folders(client, posixpath.dirname(target))
            with client.open(part, "r+b" if offset else "wb") as file:
                file.seek(offset)
                file.set_pipelined(True)
                for block in blocks:
                    file.write(block)
            client.chmod(part, mode)
            client.posix_rename(part, target)
        except (EOFError, OSError, paramiko.SSHException) as error:
            if is_lost(client.sock):
                raise lost(box.name, error) from error
            raise RemoteFailed(
                "WB-FILE-WRITE",
                f"{box.name}:{target} could not be written: {error}; what was there before is untouched",
                expected="a folder that may be written to, with room for the file",
                next="choose another path",
            ) from error
