"""Read-only commands run side by side on the box, each answer printed as one JSON line as soon as it is there.

Not uploaded but sent with the call (``python3 -c SOURCE``), the questions as JSON on standard input, so that asking
writes nothing on the box. Standard library only, Python 3.7 or later.

In: ``[{"name", "commands": [[word, ...], ...], "env": {name: value or null}, "cwd", "timeout"}, ...]``; the commands of
a question are alternatives, tried in turn until one succeeds. Out, a line each: ``{"name", "argv", "exit_status",
"stdout", "stderr", "seconds", "timed_out"}``; 127 where there is no such program.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import Any

# Programs that a login without a terminal may not have on its PATH.
ALSO = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/lib/wsl/lib"
MOST = 8 << 20  # bytes kept of one stream
MISSING = 127


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The first command's answer that succeeded; else of the first whose program exists; else of the first."""
    answers = []
    left = float(question["timeout"])
    for argv in question["commands"]:
        result = run(argv, question.get("env") or {}, question.get("cwd"), left)
        left = max(1.0, left - result["seconds"])
        if result["exit_status"] == 0 or result["timed_out"]:
            return result
        answers.append(result)
    return next((result for result in answers if result["exit_status"] != MISSING), answers[0])


def run(argv: list[str], changes: dict[str, str | None], cwd: str | None, timeout: float) -> dict[str, Any]:
    """One command, with the session's environment and ``changes`` to it (None takes a variable out)."""
    env = {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath) + os.pathsep + ALSO}
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    result = {"argv": argv, "exit_status": MISSING, "stdout": "", "stderr": "", "seconds": 0.0, "timed_out": False}
    program = shutil.which(argv[0], path=env["PATH"])
    if program is None:
        result["stderr"] = argv[0] + ": not found"
        return result
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            executable=program,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        result.update(exit_status=126, stderr=str(error))
        return result
    out = err = b""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        result["timed_out"] = True
        process.kill()
        # What is stuck in the kernel goes when the device that it waits for answers; nobody waits for it here.
        with contextlib.suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(timeout=1)
    status = process.returncode if process.returncode is not None else -9
    result.update(
        exit_status=status if status >= 0 else 128 - status,
        stdout=out[:MOST].decode("utf-8", "surrogateescape"),
        stderr=err[:MOST].decode("utf-8", "surrogateescape"),
        seconds=round(time.monotonic() - began, 3),
    )
    return result


def main() -> None:
    questions = json.load(sys.stdin)
    lock = threading.Lock()

    def work(question: dict[str, Any]) -> None:
        line = json.dumps(dict(answer(question), name=question["name"]))
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    threads = [threading.Thread(target=work, args=(question,), daemon=True) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
