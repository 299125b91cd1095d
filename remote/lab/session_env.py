"""The environment of every session in the lab: as bare as a real box's, with what makes SGLang run on a CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from remote.lab.engine.environment import box_environment
from remote.lab.process import login_shell
from remote.lab.state import CHECKOUT, Paths

MARKER = "WORKBOOK_LAB"
"""Every process of the lab has it, with the lab's folder as value: by it, and never by name, `down` finds them all."""

BIN = "WORKBOOK_LAB_BIN"
"""Where the lab's python3 is, for ~/.profile: a login shell reads /etc/profile, which sets PATH anew."""

DAEMON_MARKER = "WORKBOOK_LAB_DAEMON"
"""The same for the guardian and the daemon, which are not of the box."""

ENGINE = CHECKOUT / "remote" / "lab" / "engine"


def session_environment(paths: Paths, user: str) -> dict[str, str]:
    """What a session sees, before who called and what the client asked for.

    `python3` is the interpreter that runs the lab; it finds the box's own checkout of SGLang before site-packages.
    """
    binaries = str(Path(sys.executable).parent)
    return {
        **box_environment(),
        "HOME": str(paths.home),
        "USER": user,
        "LOGNAME": user,
        "SHELL": login_shell(),
        "PATH": os.pathsep.join([binaries, "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": os.pathsep.join([str(ENGINE), str(paths.home / "sglang" / "python")]),
        BIN: binaries,
        MARKER: str(paths.root),
    }
