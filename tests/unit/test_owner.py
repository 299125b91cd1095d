"""A login that nobody entered into the machine's lists, as containers have: a number, no name, perhaps no HOME.

.venv/bin/python -m pytest tests/unit/test_owner.py
"""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from helpers.box.targets import resolve
from helpers.owner import home, user_name, whoami


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME", "WORKBOOK_OWNER"):
        monkeypatch.delenv(name, raising=False)


def test_it_goes_by_its_number(nobody: None) -> None:
    assert user_name() == str(os.getuid())
    assert whoami() == f"{os.getuid()}@{socket.gethostname()}"
    assert home() == Path("/")


def test_it_can_name_a_box(nobody: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("somewhere").user == str(os.getuid())
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host b\n  IdentityFile ~/.ssh/%u\n  HostName b.%l\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    target = resolve("b")
    assert (target.user, target.identity_files) == (str(os.getuid()), (tmp_path / f".ssh/{os.getuid()}",))
