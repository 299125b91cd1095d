"""`make lab`, the README's second command: the lab is up, and JupyterLab opens notebook 00 (as root, too)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
from demo_run import ROOT, environment
from leftovers import gone


def start_kernel(page: str) -> str:
    """A kernel, as a notebook that is opened gets one; returns its id."""
    server, token = page.partition("/lab")[0], page.partition("?token=")[2]
    headers = {"Authorization": f"token {token}"}
    asked = httpx.post(f"{server}/api/kernels", json={"name": "python3"}, headers=headers, timeout=30, trust_env=False)
    return str(asked.json()["id"])


def test_jupyterlab_opens_on_the_first_notebook_with_the_lab_up(tmp_path: Path) -> None:
    log, runtime = tmp_path / "log", tmp_path / "runtime"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["make", "lab"],
            cwd=ROOT,
            env={**environment(tmp_path), "BROWSER": "true", "JUPYTER_RUNTIME_DIR": str(runtime)},
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
        connection = json.loads((runtime / f"kernel-{start_kernel(found.group())}.json").read_text())
        assert connection["curve_publickey"], "else every user here can read what a kernel sends"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        down = [str(ROOT / ".venv/bin/workbook"), "lab", "down"]
        subprocess.run(down, env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert gone(str(tmp_path)) == []
