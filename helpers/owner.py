"""Who works here: the name under which runs and patches on a box are somebody's, and whose ~/.ssh is read."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path


def whoami() -> str:
    """``user@laptop``; ``WORKBOOK_OWNER`` says it where the machine's name is no lasting one (a container)."""
    return os.environ.get("WORKBOOK_OWNER") or f"{user_name()}@{socket.gethostname()}"


def user_name() -> str:
    """The login's name; its number where a container runs under one that nobody entered."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError: as Python 3.13 says it
        return str(os.getuid())


def home() -> Path:
    """The home; ``/``, as containers have it, where neither HOME nor an entry of the login tells one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")
