"""Files of a box searched and shown line by line: ``python3 -m remote.archaeology OP`` with one JSON request on stdin.

``grep`` is the box's own grep (binary files as text), ``show`` gives a range of lines; both hash the very file that
they read. A refusal is ``{"error": {"code", "message", ...}}``. Bytes that are no UTF-8 travel as surrogates.
Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO

# What looks for a name after a file was not found stops after this many folders entries.
_LOOK = 200_000


class Refused(Exception):
    """What is not done, as the caller shall say it."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.answer = {"code": code, "message": message, **more}


def grep(request: dict[str, Any]) -> dict[str, Any]:
    """The lines of ``path`` that match ``pattern``; ``flags`` are grep's own (``-E``, ``-F``, ``-i``)."""
    words = ["grep", "-n", "-a", *request["flags"], "-e", request["pattern"]]
    # C.UTF-8: a pattern means the same whatever the login's language; bytes that are no UTF-8 are still searched.
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    try:
        trial = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=env, check=False)
    except ValueError:
        raise Refused("WB-GREP-PATTERN", "the pattern holds a NUL byte, which no program takes") from None
    if trial.returncode > 1:
        raise Refused("WB-GREP-PATTERN", _said(trial.stderr))
    with _reading(request) as file:
        answer = {"sha256": _digest(file)}
        file.seek(0)
        done = subprocess.run(words, stdin=file, capture_output=True, env=env, check=False)
    if done.returncode > 1:
        raise Refused("WB-FILE-READ", f"{request['path']}: {_said(done.stderr)}")
    lines = [line.partition(b":") for line in done.stdout.split(b"\n")[:-1]]
    return {**answer, "lines": [[int(number), _text(text)] for number, _, text in lines]}


def show(request: dict[str, Any]) -> dict[str, Any]:
    """Lines ``first`` to ``last`` of ``path``, and how many it has (a last one without a newline counts)."""
    first, last = request["first"], request["last"]
    lines, digest, total = [], hashlib.sha256(), 0
    with _reading(request) as file:
        for total, line in enumerate(file, 1):
            digest.update(line)
            if first <= total and (last is None or total <= last):
                lines.append([total, _text(line[:-1] if line.endswith(b"\n") else line)])
    return {"sha256": digest.hexdigest(), "lines": lines, "total": total}


def archive(request: dict[str, Any]) -> dict[str, Any]:
    """The Python files of the folders and files ``below`` (relative to ``root``), as a tar.gz in base64."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for name in request["below"]:
            for path in sorted(_python(os.path.join(request["root"], name))):
                entry = tarfile.TarInfo(os.path.relpath(path, request["root"]))
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    data = file.read()
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
    return {"archive": base64.b64encode(packed.getvalue()).decode()}


def _python(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
    for folder, _, files in os.walk(path):
        yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def read(request: dict[str, Any]) -> dict[str, Any]:
    """The whole text of ``path``."""
    with _reading(request) as file:
        data = file.read()
    return {"sha256": hashlib.sha256(data).hexdigest(), "text": _text(data)}


@contextlib.contextmanager
def _reading(request: dict[str, Any]) -> Iterator[BinaryIO]:
    """The file, opened; what goes wrong while it is read (a failing disk) is a refusal too."""
    try:
        with _open(request) as file:
            yield file
    except OSError as error:
        raise Refused("WB-FILE-READ", f"{request['path']}: {error.strerror}") from error


def _open(request: dict[str, Any]) -> BinaryIO:
    """The file, if it is an ordinary one: a pipe would never end, a device neither."""
    path = request["path"]
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISREG(kind):
            return open(path, "rb")
        what = "a folder" if stat.S_ISDIR(kind) else "no ordinary file"
        raise Refused("WB-FILE-MISSING", f"{path} is {what}", near=[])
    except FileNotFoundError:
        near = _near(request.get("root"), os.path.basename(path))
        raise Refused("WB-FILE-MISSING", f"there is no {path}", near=near) from None
    except (OSError, ValueError) as error:
        raise Refused("WB-FILE-READ", f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _near(root: Any, name: str) -> list[str]:
    """Files of that name elsewhere in the checkout, relative to it."""
    found: list[str] = []
    looked = 0
    for folder, _, files in os.walk(os.path.join(root, "sglang")) if root else ():
        looked += len(files)
        if name in files:
            found.append(os.path.relpath(os.path.join(folder, name), root))
        if looked > _LOOK or len(found) == 5:
            break
    return sorted(found)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
    return digest.hexdigest()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _said(stderr: bytes) -> str:
    return stderr.decode("utf-8", "replace").strip().rpartition("grep: ")[2] or "grep failed"


if __name__ == "__main__":
    try:
        answer = {"grep": grep, "show": show, "read": read, "archive": archive}[sys.argv[1]](json.load(sys.stdin))
    except Refused as refusal:
        answer = {"error": refusal.answer}
    print(json.dumps(answer))
