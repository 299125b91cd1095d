"""Which state of the workbook made something: its version, and the commit of its checkout."""

from __future__ import annotations

import subprocess

from helpers import __version__
from helpers.paths import ROOT


def revision() -> str:
    """``0.1.0, commit 1a2b3c4d5e6f``; with ``and changes`` where files differ from it, without a commit outside git."""
    commit = _git("rev-parse", "--short=12", "HEAD") if (ROOT / ".git").exists() else ""
    if not commit:
        return f"{__version__}, commit not known"
    changed = " and changes" if _git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{__version__}, commit {commit}{changed}"


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
