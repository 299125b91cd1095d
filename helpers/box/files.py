"""Small files on the box, whole in memory: read them, and replace them without ever leaving half of one."""

from __future__ import annotations

import posixpath
import secrets
from typing import TYPE_CHECKING

import paramiko

from helpers.box import sftp
from helpers.box.execution import is_lost
from helpers.box.pipelining import read_pipelined
from helpers.box.transient import lost
from helpers.errors import RemoteFailed
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box.box import Box

# $1 target, $2 bytes that must arrive, $3 mode or empty. A broken link looks like an end of file to cat: so the
# size is checked before the new file takes the old one's place.
_WRITE = """
d=${1%/*}; t="$d/.${1##*/}.$$.part"
mkdir -p -- "${d:-/}" || exit
trap 'rm -f -- "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t" || exit
n=$(wc -c <"$t")
[ "$n" -eq "$2" ] || { echo "only $n of $2 bytes arrived" >&2; exit 1; }
if [ -n "$3" ]; then chmod "$3" "$t" || exit
elif [ -e "$1" ]; then chmod --reference="$1" "$t" || exit; fi
sync "$t" && mv -f -- "$t" "$1"
"""


def read(box: Box, path: str) -> bytes:
    """See `Box.read_bytes`."""
    full = box.path(path)
    if not box.has_shell:
        return box.session.retry(lambda: _read_sftp(box, full))
    try:
        result = box.run(["cat", "--", full], idempotent=True)
    except RemoteFailed as error:
        raise missing(box.name, full, error) from error
    return result.stdout.encode("utf-8", "surrogateescape")


def _read_sftp(box: Box, full: str) -> bytes:
    with sftp.open_sftp(box.session) as client:
        try:
            with client.open(full, "rb") as handle:
                return b"".join(read_pipelined(client, handle, 0))
        except (OSError, EOFError, paramiko.SSHException) as error:
            if is_lost(client.sock):
                raise lost(box.name, error) from error
            raise missing(box.name, full, error) from error


def write(box: Box, path: str, data: bytes, mode: int | None = None) -> None:
    """See `Box.write_bytes`."""
    full = box.path(path)
    if not box.has_shell:
        _write_sftp(box, full, data, mode)
        return
    wanted = "" if mode is None else f"{mode:o}"
    try:
        box.run(["/bin/sh", "-c", _WRITE, "write", full, str(len(data)), wanted], stdin=data)
    except RemoteFailed as error:
        raise RemoteFailed(
            "WB-FILE-WRITE",
            f"{box.name}:{full} could not be written ({len(data)} bytes); what was there before is untouched",
            expected="a folder that may be written to, with room for the file",
            next=f"workbook run {box.name} -- ls -ld {as_typed(posixpath.dirname(full))}",
            lines=error.lines,
        ) from error


def _write_sftp(box: Box, full: str, data: bytes, mode: int | None) -> None:
    part = f"{posixpath.dirname(full)}/.{posixpath.basename(full)}.{secrets.token_hex(4)}.part"
    with sftp.open_sftp(box.session) as client:
        try:
            with client.open(part, "wb") as handle:
                handle.set_pipelined(True)
                handle.write(data)
            if mode is not None:
                client.chmod(part, mode)
            client.posix_rename(part, full)
        except OSError as error:
            raise RemoteFailed(
                "WB-FILE-WRITE",
                f"{box.name}:{full} could not be written ({len(data)} bytes): {error}",
                expected="a folder that may be written to, with room for the file",
                next="choose another path",
            ) from error


def missing(name: str, full: str, error: Exception) -> RemoteFailed:
    """The error for a file that is not there, or may not be read."""
    return RemoteFailed(
        "WB-FILE-MISSING",
        f"{name}:{full} cannot be read",
        expected="a file that exists and may be read",
        next=f"workbook run {name} -- ls -ld {as_typed(posixpath.dirname(full))}",
        lines=error.lines if isinstance(error, RemoteFailed) else [str(error)],
    )
