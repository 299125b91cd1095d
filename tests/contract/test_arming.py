"""Arming over SSH: the arm file is gone whatever ends the block, and lapses where nothing could end it.

.venv/bin/python -m pytest tests/contract/test_arming.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ssh_servers
from box_support import target_of
from serving_support import to_json

from helpers.box import Box
from helpers.errors import RemoteFailed
from helpers.paths import ROOT
from helpers.serving.arming import armed

HOLDER = """
import sys, time
sys.path[:0] = sys.argv[3:]
from serving_support import from_json
from helpers.box import connect
from helpers.interrupts import interruptible
from helpers.serving.arming import armed
with interruptible(), connect(from_json(sys.argv[1])) as box, armed(box, sys.argv[2], {"seconds": 2}):
    print("armed", flush=True)
    time.sleep(60)
"""


def test_armed_inside_the_block_and_by_one_only(box: Box, there: Path) -> None:
    arm = there / "arm.json"
    with armed(box, str(arm), {"by": "ann"}):
        assert arm.exists()
        with pytest.raises(RemoteFailed, match="by ann") as caught, armed(box, str(arm), {"by": "bob"}):
            pass
        assert caught.value.code == "WB-CAPTURE-BUSY"
        assert arm.exists()
    assert list(there.iterdir()) == []


def test_kept_fresh_while_it_lasts(box: Box, there: Path) -> None:
    arm = there / "arm.json"
    with armed(box, str(arm), {"seconds": 2}):
        time.sleep(3)
        assert time.time() - arm.stat().st_mtime < 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_its_process(
    box: Box, there: Path, ssh_server: ssh_servers.SshServer, number: signal.Signals
) -> None:
    arm = there / "arm.json"
    words = [
        sys.executable,
        "-c",
        HOLDER,
        to_json(target_of(ssh_server)),
        str(arm),
        str(ROOT),
        str(Path(__file__).parent),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "armed\n"
        holder.send_signal(number)
    if number != signal.SIGKILL:
        assert not arm.exists()
    else:
        assert arm.exists()
        os.utime(arm, (time.time() - 3, time.time() - 3))
    with armed(box, str(arm), {}):
        assert arm.exists()
