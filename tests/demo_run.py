"""One run of `make demo` for all tests that look at what it made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class DemoRun:
    """What the demo printed and wrote. `home` is its lab's folder, `folder` the investigation's."""

    home: Path
    folder: Path
    exit_code: int
    stdout: str
    stderr: str
    report: dict[str, Any] = field(default_factory=dict)

    def profile(self, name: str) -> dict[str, Any]:
        return next(p for p in self.report["profiles"] if p["name"] == name)


def environment(base: Path) -> dict[str, str]:
    """A lab and an investigation of their own under `base`."""
    return {**os.environ, "WORKBOOK_LAB_HOME": str(base / "lab"), "WORKBOOK_INVESTIGATIONS": str(base / "found")}


def run_demo(base: Path) -> DemoRun:
    """Runs the demo as `make demo` does, in a lab of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers.demo"],
        cwd=ROOT,
        env=environment(base),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    folder = base / "found" / "demo"
    report = json.loads((folder / "report.json").read_text()) if (folder / "report.json").exists() else {}
    return DemoRun(base / "lab", folder, done.returncode, done.stdout, done.stderr, report)
