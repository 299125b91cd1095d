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


def start_kernel(page: str) -> None:
    """A kernel, as a notebook that is opened gets one; until it answers."""
    server, _, token = page.partition("/lab")[0], *page.partition("?token=")[1:]
    asked = {"headers": {"Authorization": f"token {token}"}, "timeout": 30, "trust_env": False}
    kernel = httpx.post(f"{server}/api/kernels", json={"name": "python3"}, **asked).json()["id"]
    end = time.monotonic() + 60
    while (told := httpx.get(f"{server}/api/kernels/{kernel}", **asked).json())["execution_state"] != "idle":
        assert time.monotonic() < end, told
        time.sleep(0.2)


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
        start_kernel(found.group())
        assert "eavesdropping" not in log.read_text(), "a kernel says so where others can read what it is sent"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        down = [str(ROOT / ".venv/bin/workbook"), "lab", "down"]
        subprocess.run(down, env=environment(tmp_path), check=True, capture_output=True, timeout=60)
    assert gone(str(tmp_path)) == []
