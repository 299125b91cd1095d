"""The kernel of a headless run: no port to read from, no warning, and a folder of its own that is gone afterwards.

.venv/bin/python -m pytest tests/notebooks/test_kernel_sockets.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from leftovers import gone

from helpers.headless import run_notebook
from helpers.paths import ROOT

#: What a kernel says of itself. psutil is ipykernel's own dependency.
ASK = """
import json, os, psutil
from ipykernel.connect import get_connection_file
file = get_connection_file()
told = json.load(open(file))
ports = [c.laddr.port for c in psutil.Process().net_connections("inet") if c.status == "LISTEN"]
ports.remove(get_ipython().kernel.iopub_thread._pipe_port)  # where forked processes hand in what they print
home = os.path.dirname(file)
print(json.dumps({"transport": told["transport"], "ports": ports, "home": home, "mode": oct(os.stat(home).st_mode)}))
"""
RUN = "import sys; from pathlib import Path; from helpers.headless import run_notebook; "
RUN += "run_notebook(Path(sys.argv[1]), Path(sys.argv[2]))"


def notebook(path: Path, *cells: str) -> Path:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(made, path)
    return path


def asked(folder: Path) -> dict[str, Any]:
    run_notebook(notebook(folder / "ask.ipynb", ASK), folder / "ran.ipynb")
    (cell,) = nbformat.read(folder / "ran.ipynb", as_version=4).cells
    (output,) = cell.outputs
    found: dict[str, Any] = json.loads(output.text)
    return found


def test_no_port_gives_anything_away_and_nothing_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = asked(tmp_path)
    assert (told["transport"], told["ports"]) == ("ipc", [])
    assert told["mode"][-3:] == "700"
    assert not Path(told["home"]).exists()
    said = "".join(capfd.readouterr())  # the kernel's own stderr among it
    assert [word for word in ("TCP", "eavesdropping", "CurveZMQ", "encryption", "Warning") if word in said] == []


def test_a_deep_temporary_folder_is_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    told = asked(tmp_path)
    assert Path(told["home"]).parent == Path("/tmp")
    assert not Path(told["home"]).exists()
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize("moment", ["it starts", "a cell runs", "a cell fails"])
def test_an_interrupt_or_a_failure_leaves_no_folder(moment: str, tmp_path: Path) -> None:
    scratch = tmp_path / "t"
    scratch.mkdir()
    cell = (
        "print('begun')\nraise ValueError"
        if moment == "a cell fails"
        else "import time\nprint('begun')\ntime.sleep(99)"
    )
    path = notebook(tmp_path / "n.ipynb", cell)
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(path), str(tmp_path / "ran.ipynb")],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    end = time.monotonic() + 120
    while not list(scratch.glob("kernel-*")) if moment == "it starts" else "begun" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    if moment != "a cell fails":
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert ("CellExecutionError" if moment == "a cell fails" else "KeyboardInterrupt") in log.read_text()
    assert list(scratch.glob("kernel-*")) == []
    assert gone(str(scratch)) == []
