"""Prints the self-test matrices of the diagnosis at the end of a run, whatever pytest was told to capture."""

from __future__ import annotations

import sys

import pytest

TABLES = {
    "test_selftest_matrix": "self-test of the diagnosis",
    "test_near_matrix": "the same from sketches: what travelled",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for module, title in TABLES.items():
        matrix = sys.modules.get(module)
        rows = matrix.table() if matrix is not None else []
        if rows:
            terminalreporter.section(title)
            for row in rows:
                terminalreporter.write_line(row)
