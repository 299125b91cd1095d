"""Who works here: the name under which runs and patches on a box are somebody's."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """``user@laptop``; ``WORKBOOK_OWNER`` says it where the machine's name is no lasting one (a container)."""
    return os.environ.get("WORKBOOK_OWNER") or f"{getpass.getuser()}@{socket.gethostname()}"
