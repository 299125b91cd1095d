"""Every finding has its page, and every page one form. .venv/bin/python -m pytest tests/unit/test_finding_pages.py"""

from __future__ import annotations

import re
from typing import get_args

from helpers.paths import ROOT
from helpers.wiring.findings import Code

CODES = {
    code
    for path in (ROOT / "helpers/serving/preflight").glob("*.py")
    for code in re.findall(r"\bfound\(\s*\"([a-z0-9-]+)\"|\(\"(ids-[a-z-]+)\", \"", path.read_text())
    for code in code
    if code
}


def test_every_finding_has_a_page_and_every_page_a_finding() -> None:
    pages = {path.stem for path in (ROOT / "docs/errors/findings").glob("*.md")}
    assert pages == CODES | set(get_args(Code))


def test_pages_have_one_form() -> None:
    for page in (ROOT / "docs/errors/findings").glob("*.md"):
        headings = re.findall(r"^#+ .*$", page.read_text(), re.M)
        assert headings == [f"# {page.stem}", "## Symptom", "## Cause", "## Fix"], page.name
