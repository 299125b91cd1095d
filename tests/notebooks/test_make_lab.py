"""`make lab`, the README's second command: the lab is up, and JupyterLab opens notebook 00 (as root, too)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
from demo_run import ROOT, environment
from leftovers import gone


def test_jupyterlab_opens_on_the_first_notebook_with_the_lab_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["make", "lab"],
            cwd=ROOT,
            env={**environment(tmp_path), "BROWSER": "true"},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 120
        while not (found := re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/\S*", log.read_text())):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.2)
        assert "notebooks/00_start_here.ipynb" in found.group()
        assert "lab is up" in log.read_text() or "lab was up" in log.read_text()
        assert httpx.get(found.group(), timeout=30, follow_redirects=True, trust_env=False).status_code == 200
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        down = [str(ROOT / ".venv/bin/workbook"), "lab", "down"]
        subprocess.run(down, env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert gone(str(tmp_path)) == []
