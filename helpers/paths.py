"""Where things lie on the laptop: the checkout, the lab's state, the caches. No other module spells these out."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
REMOTE = ROOT / "remote"
DOCS = ROOT / "docs"


def error_page(code: str) -> str:
    """The page of an error: as the checkout has it where that leads there from this folder, else its whole path."""
    return _page(Path("docs") / "errors" / f"{code}.md")


def finding_page(code: str) -> str:
    """The page of a finding of `diagnose` or `preflight`, likewise."""
    return _page(Path("docs") / "errors" / "findings" / f"{code}.md")


def _page(here: Path) -> str:
    whole = ROOT / here
    return str(here if here.is_file() and here.samefile(whole) else whole)


def lab_dir() -> Path:
    """The lab's folder: its box's home, its keys, its log. ``WORKBOOK_LAB_HOME`` moves it (tests do)."""
    return Path(os.environ.get("WORKBOOK_LAB_HOME") or ROOT / ".lab").expanduser().resolve()


def investigations_dir() -> Path:
    """Where investigations are kept; ``WORKBOOK_INVESTIGATIONS`` moves it."""
    return Path(os.environ.get("WORKBOOK_INVESTIGATIONS") or DATA / "investigations").expanduser().resolve()
