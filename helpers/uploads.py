"""The files of ``remote/`` on the box, under ``~/.workbook/code/<hash>/``, and calls to them that answer in JSON.

The folder is named by its content: what is there is never changed, a newer laptop brings a folder of its own, and a
server that was started with the old one keeps it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed
from helpers.paths import REMOTE
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box import Box

CODE = "~/.workbook/code"

# The interpreter without site-packages and PYTHONPATH: the remote side needs the standard library only, starts faster,
# and is not touched by what an environment installs into every Python.
BARE = ("-E", "-s", "-S")

# Unpacks a tar from standard input under a temporary name and renames it; a twin that was quicker is as good.
_UNPACK = """
import os, shutil, sys, tarfile, tempfile, warnings
warnings.simplefilter("ignore")
target = sys.argv[1]
os.makedirs(os.path.dirname(target), exist_ok=True)
part = tempfile.mkdtemp(prefix=".part-", dir=os.path.dirname(target))
try:
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        archive.extractall(part)
    os.rename(part, target)
except OSError:
    shutil.rmtree(part, ignore_errors=True)
    if not os.path.isdir(target):
        raise
"""


def interpreter(box: Box, python: str) -> str:
    """The interpreter as it is started on the box: no shell is there that would read ``~/`` as the home."""
    return box.path(python) if python.startswith("~/") else python


def upload(box: Box, *, python: str = "python3") -> str:
    """The folder on the box that holds ``remote/`` as it is here; put on its PYTHONPATH, ``remote.*`` can be imported.

    Only ``remote/*.py`` goes up (the lab and the patches stay here), in one round trip, and only if it is not there.
    """
    files = sorted(REMOTE.glob("*.py"))
    target = f"{box.home}{CODE[1:]}/{content_hash(files)}"
    if not box.run(["test", "-d", target], check=False, idempotent=True).ok:
        box.run([interpreter(box, python), *BARE, "-c", _UNPACK, target], stdin=_archive(files))
    return target


def call(box: Box, module: str, operation: str, request: dict[str, Any], *, python: str = "python3") -> dict[str, Any]:
    """Run ``remote.<module> <operation>`` on the box with a JSON request, and return its JSON answer.

    The answer may be ``{"error": {...}}``: a refusal that the caller turns into an error of its own.

    Raises:
        RemoteFailed: WB-REMOTE-PYTHON where the interpreter is missing or fails before it can answer.
    """
    python = interpreter(box, python)
    result = box.run(
        command(module, operation, python=python),
        cwd=upload(box, python=python),
        stdin=json.dumps(request),
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(result.stdout)
    except ValueError as error:
        raise broken(box.name, python, result.stderr.splitlines() or result.stdout.splitlines()) from error
    return answer


def command(module: str, operation: str, *extra: str, python: str = "python3") -> list[str]:
    """The words of such a call; its working folder is what `upload` returned."""
    return [python, *BARE, "-m", f"remote.{module}", operation, *extra]


def broken(name: str, python: str, lines: list[str]) -> RemoteFailed:
    """The error for a remote side that gave no answer."""
    return RemoteFailed(
        "WB-REMOTE-PYTHON",
        f"{python} on {name} gave no answer",
        expected="Python 3.9 or later on a Linux box",
        next=f"workbook run {name} -- {as_typed(python)} --version",
        lines=lines[-10:],
    )


def content_hash(files: list[Path]) -> str:
    """Sixteen hex digits over names and contents."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _archive(files: list[Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(f"remote/{file.name}")
            content = file.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
