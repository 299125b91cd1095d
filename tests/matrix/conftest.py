"""Prints the self-test matrix of the diagnosis at the end of a run, whatever pytest was told to capture."""

from __future__ import annotations

import sys

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    matrix = sys.modules.get("test_selftest_matrix")
    rows = matrix.table() if matrix is not None else []
    if rows:
        terminalreporter.section("self-test of the diagnosis")
        for row in rows:
            terminalreporter.write_line(row)
