"""What nvidia-smi says about memory, also where it does not know.

.venv/bin/python -m pytest tests/unit/test_gpus.py
"""

from __future__ import annotations

import pytest

from remote.gpus import holding, used_mib


@pytest.mark.parametrize(
    ("output", "used"),
    [
        ("0, 71240\n1, 5\n", [71240, 5]),
        ("0, [N/A]\n1, 80\n", [None, 80]),
        ("0, [GPU is lost]\n", [None]),
        ("No devices were found\n", []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", []),
        ("", []),
    ],
)
def test_memory_in_use(output: str, used: list[int | None]) -> None:
    assert used_mib(output) == used


def test_holders() -> None:
    assert holding("4711, 71000\n4712, [N/A]\n[Not Found], 5\n\n") == [4711, 4712]
    assert holding("") == []
