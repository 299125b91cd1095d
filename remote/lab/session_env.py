"""The environment of every session in the lab: as bare as a real box's, with what makes SGLang run on a CPU."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from remote.lab.process import login_shell
from remote.lab.state import CHECKOUT, Paths

MARKER = "WORKBOOK_LAB"
"""Every process of the lab has it, with the lab's folder as value: by it, and never by name, `down` finds them all."""

DAEMON_MARKER = "WORKBOOK_LAB_DAEMON"
"""The same for the guardian and the daemon, which are not of the box."""

ENGINE = CHECKOUT / "remote" / "lab" / "engine"


def session_environment(paths: Paths, user: str) -> dict[str, str]:
    """What a session sees, before who called and what the client asked for.

    `python3` is the interpreter that runs the lab; it finds the box's own checkout of SGLang before site-packages.
    """
    return {
        **_engine_environment(),
        "HOME": str(paths.home),
        "USER": user,
        "LOGNAME": user,
        "SHELL": login_shell(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": os.pathsep.join([str(ENGINE), str(paths.home / "sglang" / "python")]),
        MARKER: str(paths.root),
    }


def _engine_environment() -> Mapping[str, str]:
    """What the CPU engine wants to be set; the engine's own file is the one place that knows."""
    if importlib.util.find_spec("remote.lab.engine") is None:
        return {}
    module = importlib.import_module("remote.lab.engine.environment")
    return cast("Callable[[], Mapping[str, str]]", module.box_environment)()
