"""Is this the box it claims to be? known_hosts, read as OpenSSH reads it, and strict.

paramiko's own reader knows neither patterns nor markers such as @revoked, so that a revoked key would pass there.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import paramiko

from helpers.box.quoting import quote
from helpers.errors import BoxUnreachable
from helpers.owner import home


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file."""

    file: Path
    line: int
    marker: str
    names: tuple[str, ...]
    kind: str
    blob: bytes


def read(files: Iterable[Path]) -> list[Entry]:
    """All entries of ``files`` that exist; a line that is no entry is skipped, as OpenSSH does."""
    entries = []
    for file in files:
        if not file.is_file():
            continue
        for number, text in enumerate(file.read_text(errors="replace").splitlines(), 1):
            fields = text.split()
            marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
            if len(fields) < 3 or fields[0].startswith("#"):
                continue
            try:
                blob = base64.b64decode(fields[2], validate=True)
            except binascii.Error:
                continue
            entries.append(Entry(file, number, marker, tuple(fields[0].split(",")), fields[1], blob))
    return entries


def keepers(files: Iterable[Path]) -> tuple[Path, ...]:
    """Those of ``files`` that hold keys or could: no device such as /dev/null, no folder, no ``none``."""
    return tuple(file for file in files if str(file) != "none" and (file.is_file() or not file.exists()))


def matches(entry: Entry, name: str) -> bool:
    """Whether the line is about ``name``: plain, hashed (``|1|``), or a pattern with ``*``, ``?`` and ``!``."""
    found = False
    for pattern in entry.names:
        if pattern.startswith("|1|"):
            found = found or _hashed(pattern, name)
        elif pattern.startswith("!"):
            if _like(name, pattern[1:]):
                return False
        else:
            found = found or _like(name, pattern)
    return found


def _like(name: str, pattern: str) -> bool:
    # known_hosts knows * and ? only; brackets are those of [host]:port.
    return fnmatch.fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


def _hashed(pattern: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in pattern.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


def lookup_name(host: str, port: int, alias: str = "") -> str:
    """The name under which known_hosts keeps a box: ``[host]:port`` unless the port is 22."""
    name = alias or host
    return name if port == 22 or alias else f"[{name}]:{port}"


def fingerprint(key: paramiko.PKey) -> str:
    """``SHA256:...`` as ``ssh-keygen -lf`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")


def preferred(entries: list[Entry], name: str, offered: Iterable[str]) -> list[str]:
    """Key algorithms in the order to ask for: those first under which the box is already known."""
    known = {entry.kind for entry in entries if not entry.marker and matches(entry, name)}
    if "ssh-rsa" in known:
        known |= {"rsa-sha2-512", "rsa-sha2-256"}
    return sorted(offered, key=lambda kind: kind not in known)


def verify(entries: list[Entry], name: str, key: paramiko.PKey, files: tuple[Path, ...], *, unkept: str = "") -> None:
    """Accept ``key`` for ``name``, or raise.

    Args:
        files: where the entries come from; the first that can hold one is where to add another.
        unkept: the line of the configuration that keeps keys nowhere, for the error.

    Raises:
        BoxUnreachable: WB-SSH-HOSTKEY-UNKNOWN with the fingerprint and the command that adds this very key;
            WB-SSH-HOSTKEY-CHANGED where the box is known under another key, or the key is revoked. Never overridden.
    """
    mine = [entry for entry in entries if matches(entry, name)]
    blob, print_ = key.asbytes(), fingerprint(key)
    revoked = [entry for entry in mine if entry.marker == "@revoked" and entry.blob == blob]
    known = [entry for entry in mine if not entry.marker]
    if not revoked and any(entry.blob == blob for entry in known):
        return
    if revoked or known:
        entry = (revoked or [item for item in known if item.kind == key.get_name()] or known)[0]
        raise BoxUnreachable(
            "WB-SSH-HOSTKEY-CHANGED",
            f"{name} shows the {key.get_name()} key {print_}, "
            + ("which is revoked" if revoked else "not the one that it is known by"),
            expected=f"the key of {entry.file}:{entry.line} ({entry.kind} SHA256:{_digest(entry.blob)})",
            next="ask whoever runs the box whether its key was changed; only then: "
            f"ssh-keygen -R {quote(name)} -f {quote(str(entry.file))}",
        )
    file = next(iter(keepers(files)), home() / ".ssh/known_hosts")
    line = f"{name} {key.get_name()} {key.get_base64()}"
    raise BoxUnreachable(
        "WB-SSH-HOSTKEY-UNKNOWN",
        f"{name} is not known yet; it shows the {key.get_name()} key {print_}",
        expected=f"an entry for {name} in {file}"
        + (f" (read beside {unkept}, which keeps no key: the workbook accepts none unasked)" if unkept else ""),
        next="compare the fingerprint with what the box's owner says; if it is the same, add this very key: "
        f"mkdir -p -m 700 {quote(str(file.parent))} && echo {quote(line)} >> {quote(str(file))}",
    )


def _digest(blob: bytes) -> str:
    return base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
