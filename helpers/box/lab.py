"""The lab, started and stopped from the laptop's side: thin calls of ``python -m remote.lab``.

>>> lab_up()["port"]                      # doctest: +SKIP
44051
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from helpers import paths
from helpers.errors import BoxUnreachable, RemoteFailed, UsageError, WorkbookError
from helpers.progress import Progress

_ERRORS: dict[int, type[WorkbookError]] = {
    error.exit_code: error for error in (UsageError, BoxUnreachable, RemoteFailed)
}
_INTERRUPTED = 130


def lab_up(
    *, engine: str = "0.5.9", tp: int | None = None, port: int | None = None, progress: bool = True
) -> dict[str, Any]:
    """Starts the lab, or finds the one that runs already.

    Args:
        engine: version of SGLang for the box's checkout, or ``"none"`` for a box without.
        tp: checked that the lab's target splits so many ways, and recorded; a profile says its server's own.
        port: None takes a free one.
        progress: say on stderr what takes long.

    Returns:
        what lab.json says (alias, host, port, user, home, pid, ...), with ``started`` and ``warnings``.
    """
    arguments = ["up", "--engine", engine]
    arguments += ["--tp", str(tp)] if tp is not None else []
    arguments += ["--port", str(port)] if port is not None else []
    return _call(arguments, progress=progress)


def lab_status() -> dict[str, Any]:
    """What lab.json says of the running lab.

    Raises:
        BoxUnreachable: no lab is up (WB-LAB-NOT-UP), or it does not answer (WB-LAB-SILENT).
    """
    return _call(["status"])


def lab_is_up() -> bool:
    """Whether a lab runs, and lets its client in."""
    try:
        lab_status()
    except BoxUnreachable:
        return False
    return True


def lab_down() -> dict[str, Any]:
    """Stops the lab and everything that runs in it; its folder stays.

    Returns:
        ``was_up``, and ``ended``: how many processes of its sessions were still running.
    """
    return _call(["down"])


def _call(arguments: Sequence[str], *, progress: bool = False) -> dict[str, Any]:
    """Runs the lab's own command and returns its answer; its errors come back as ours."""
    bar = Progress("lab", enabled=progress)
    said: list[str] = []
    shown = False
    with subprocess.Popen(
        [sys.executable, "-m", "remote.lab", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT), "WORKBOOK_LAB_HOME": str(paths.lab_dir())},
        cwd=paths.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line.rstrip("\n"))
                if line.startswith("lab: "):
                    bar.update(line.removeprefix("lab: ").strip())
                    shown = True
            answer = process.stdout.read()
            process.wait()
        except BaseException:
            process.terminate()  # it takes back what it had started, and only then ends
            process.wait()
            raise
    if shown:
        bar.done("up" if process.returncode == 0 else "failed")
    if process.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    return _understood(answer, process.returncode, said)


def _understood(answer: str, code: int, said: list[str]) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise RemoteFailed(
            "WB-LAB-CRASHED",
            f"the lab's command ended with exit code {code} and without an answer",
            expected="one JSON object",
            next="make setup",
            lines=said[-10:],
        ) from None
    if code == 0:
        return result
    error = result["error"]
    raise _ERRORS[code](error["code"], error["message"], expected=error["expected"], next=error["next"])
