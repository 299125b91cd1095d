"""GPU memory around a stop, asked of nvidia-smi where the box has one.

Its process list shows the pids of the machine; in a container they may be others than ours. So memory in use per GPU
is told as well, before and after, for people to compare.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import Any

GPUS = "--query-gpu=index,memory.used"
APPS = "--query-compute-apps=pid,used_memory"
PATIENCE, POLL = 10.0, 0.5  # seconds: the driver frees memory a little later than the process ends


def before(pids: list[int]) -> dict[str, Any] | None:
    """``{"used_mib": [per GPU], "holders": those of ``pids`` that hold some, "pids"}``; None without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return None
    holders = sorted(set(holding(_ask(APPS))) & set(pids))
    return {"used_mib": used_mib(_ask(GPUS)), "holders": holders, "pids": pids}


def after(earlier: dict[str, Any] | None) -> dict[str, Any] | None:
    """``{"before_mib", "after_mib", "holders_left"}``, once nothing of the run holds memory or patience has ended."""
    if earlier is None:
        return None
    until = time.monotonic() + PATIENCE
    while True:
        now = before(earlier["pids"])
        if now is None or not now["holders"] or time.monotonic() > until:
            break
        time.sleep(POLL)
    return {
        "before_mib": earlier["used_mib"],
        "after_mib": now["used_mib"] if now else [],
        "holders_left": now["holders"] if now else [],
    }


def used_mib(output: str) -> list[int | None]:
    """MiB in use of each GPU; None where the driver does not tell (``[N/A]``, ``[GPU is lost]``, MIG)."""
    cells = [line.split(",", 1)[1].strip() for line in output.splitlines() if "," in line]
    return [int(cell) if cell.isdigit() else None for cell in cells]


def holding(output: str) -> list[int]:
    """The pids that hold memory of a GPU."""
    cells = [line.split(",", 1)[0].strip() for line in output.splitlines()]
    return [int(cell) for cell in cells if cell.isdigit()]


def _ask(query: str) -> str:
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
