"""Fixtures of the lab tier: one lab with the real SGLang for the whole session, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.box import Box, connect
from helpers.box.lab import lab_down, lab_up


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab's folder, up; its box's home is ``home/`` below. Commands started by a test find it as well."""
    folder = tmp_path_factory.mktemp("lab")
    before = os.environ.get("WORKBOOK_LAB_HOME")
    os.environ["WORKBOOK_LAB_HOME"] = str(folder)
    try:
        lab_up(progress=False)
        yield folder
        lab_down()
    finally:
        if before is None:
            del os.environ["WORKBOOK_LAB_HOME"]
        else:
            os.environ["WORKBOOK_LAB_HOME"] = before


@pytest.fixture
def box(lab: Path) -> Iterator[Box]:
    """Our client, connected to the lab."""
    with connect("lab") as connected:
        yield connected
