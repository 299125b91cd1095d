"""The ssh configuration is what ssh itself makes of it; and what is said where no ssh can be asked.

.venv/bin/python -m pytest tests/unit/test_ssh_asked.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.box import sshasked
from helpers.box.auth import Attempts, _candidates
from helpers.box.patience import Patience, patience
from helpers.box.targets import resolve
from helpers.errors import UsageError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """~/.ssh/config of a home of our own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path / ".ssh/config"


@pytest.fixture
def no_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ssh of our own."""
    folder.mkdir()
    (folder / "ssh").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_what_only_ssh_decides(config: Path) -> None:
    config.write_text(
        "Match Host box Exec true\n  ProxyJump right\nMatch !exec true\n  ProxyJump wrong\n"
        "Match user you\n  Port 2022\nHost box\n  ProxyJump late\n"
    )
    assert resolve("box").proxy_jump == ("right",)
    assert resolve("you@box").port == 2022
    assert resolve("you@box:7").port == 7
    assert resolve("ssh://you@[::1]:2200").host == "::1"


def test_its_home_is_the_one_of_the_environment(config: Path) -> None:
    home = config.parent.parent
    (home / ".ssh/parts").mkdir()
    config.write_text("Include parts/*\n")
    (home / ".ssh/parts/one").write_text("Host box\n  IdentityAgent ~/agent\n  UserKnownHostsFile ~/.ssh/%n %d/other\n")
    target = resolve("box")
    assert target.agent_socket == f"{home}/agent"
    assert target.known_hosts[:2] == (home / ".ssh/box", home / "other")
    assert resolve("plain").known_hosts[:2] == (home / ".ssh/known_hosts", home / ".ssh/known_hosts2")
    assert resolve("plain").identity_files == ()


def test_the_configuration_of_the_machine(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "system").write_text("Host box\n  User everybody\n  Port 2022\n")
    monkeypatch.setattr(sshasked, "SYSTEM", tmp_path / "system")
    config.write_text("Host box\n  Port 7\n")
    target = resolve("box")
    assert (target.user, target.port) == ("everybody", 7)


def test_a_line_that_ssh_does_not_take(config: Path) -> None:
    config.write_text("Host box\n  NoSuchOption yes\n")
    with pytest.raises(UsageError, match=r"WB-SSH-CONFIG.*\.ssh/config.*line 2.*(?i:nosuchoption)"):
        resolve("box")


def test_a_name_that_ssh_does_not_take(config: Path) -> None:
    with pytest.raises(UsageError, match="WB-SSH-TARGET"):
        resolve("a;b")


def test_an_ssh_that_says_nothing(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "exec sleep 30", monkeypatch)
    monkeypatch.setattr(sshasked, "TIMEOUT", 0.2)
    with pytest.raises(UsageError, match=r"WB-SSH-CONFIG.*nothing for 0.2 s"):
        resolve("box")


@pytest.mark.parametrize("said", ["unknown option -- G", "No user exists for uid 12345"])
def test_an_ssh_that_cannot_tell(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    program(tmp_path / "bin", f"echo '{said}' >&2; exit 255", monkeypatch)
    config.write_text("Host box\n  Port 2022\n")
    target = resolve("box")
    assert target.port == 2022
    assert said in target.note


@pytest.mark.usefixtures("no_ssh")
@pytest.mark.parametrize(
    "line", ["Match tagged lab", "Match host box localnetwork 10.0.0.0/8", "Match originalhost box !tagged x"]
)
def test_without_ssh_nobody_guesses(config: Path, line: str) -> None:
    config.write_text(f"{line}\n  ProxyJump bastion\nHost box\n  Port 2022\n")
    with pytest.raises(UsageError, match=r"WB-SSH-CONFIG.*only ssh itself can tell"):
        resolve("box")


@pytest.mark.usefixtures("no_ssh")
def test_without_ssh_what_is_plain_is_read(config: Path) -> None:
    config.write_text(
        "Match host other tagged lab\n  Port 1\nMatch Host box\n  Port 2022\n"
        "Host box\n  IdentityAgent ~/agent\n  ConnectTimeout 2m\n  UserKnownHostsFile /dev/null\n"
    )
    target = resolve("box")
    assert (target.port, target.agent_socket, target.connect_timeout) == (2022, f"{config.parent.parent}/agent", 120)
    assert target.unkept == "UserKnownHostsFile /dev/null"
    assert "there is no ssh program" in target.note


def test_a_public_key_that_no_agent_holds_is_told_as_such(config: Path) -> None:
    public = config.with_name("box.pub")
    public.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me\n")
    config.write_text(f"Host box\n  IdentityFile {public}\n  IdentitiesOnly yes\n")
    attempts = Attempts()
    assert list(_candidates(resolve("box"), None, attempts)) == []
    assert attempts.broken == [f"{public}: a public key, and no agent holds its private half"]


def test_how_long_a_box_may_take(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("Host slow\n  ConnectTimeout 90\nHost quick\n  ConnectTimeout 3\n")
    assert patience(resolve("slow")) == Patience(90, 90)
    assert patience(resolve("quick")) == Patience(3, 15)  # the address has to answer at once, and a login may take long
    assert patience(resolve("plain")) == Patience(15, 15)
    monkeypatch.setenv("WORKBOOK_CONNECT_TIMEOUT", "40")
    assert patience(resolve("slow")) == patience(resolve("quick")) == Patience(40, 40)
    assert patience(resolve("slow"), 5) == Patience(5, 5)
    for wrong in ("soon", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("WORKBOOK_CONNECT_TIMEOUT", wrong)
        with pytest.raises(UsageError, match=r"WB-USAGE.*WORKBOOK_CONNECT_TIMEOUT"):
            patience(resolve("slow"))
