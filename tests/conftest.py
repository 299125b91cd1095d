"""Shared by all tiers. A test's tier is the folder that it lies in; the marker follows from it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jaxtyping import install_import_hook

if TYPE_CHECKING:
    from demo_run import DemoRun

# Before torch is imported: its threads spin for each other, and beside a server they wait longer than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # leftovers.py, demo_run.py: for every tier

# Shape annotations are checked in tests, and cost nothing elsewhere.
install_import_hook(["helpers.tensors", "helpers.wiring"], "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = Path(item.fspath).relative_to(HERE).parts[0]
        item.add_marker(tier)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """The demo, run once in a lab of its own; some four minutes."""
    from demo_run import run_demo

    return run_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab that is up, one for all tiers, in a folder of its own; whatever ran in it is gone afterwards."""
    from leftovers import gone

    from helpers.box.lab import lab_down, lab_up

    home = tmp_path_factory.mktemp("lab")
    before = os.environ.get("WORKBOOK_LAB_HOME")
    os.environ["WORKBOOK_LAB_HOME"] = str(home)
    try:
        lab_up(progress=False)
        yield home
    finally:
        lab_down()
        if before is None:
            del os.environ["WORKBOOK_LAB_HOME"]
        else:
            os.environ["WORKBOOK_LAB_HOME"] = before
    assert gone(str(home)) == []
