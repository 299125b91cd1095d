"""Shared by all tiers. A test's tier is the folder that it lies in; the marker follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

HERE = Path(__file__).parent

# Shape annotations are checked in tests, and cost nothing elsewhere.
install_import_hook(["helpers.tensors", "helpers.wiring"], "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = Path(item.fspath).relative_to(HERE).parts[0]
        item.add_marker(tier)
