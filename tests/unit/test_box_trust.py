"""Configuration and host keys, as OpenSSH reads them."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import paramiko
import pytest

from helpers.box import hostkeys
from helpers.box.sshconfig import lookup
from helpers.box.targets import resolve
from helpers.errors import BoxUnreachable, UsageError

KEY = paramiko.Ed25519Key.from_type_string(
    "ssh-ed25519",
    base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"),
)
LINE = f"ssh-ed25519 {KEY.get_base64()}"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/"


def verdict(tmp_path: Path, text: str, name: str = "box") -> str:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    try:
        hostkeys.verify(hostkeys.read([file]), name, KEY, (file,))
    except BoxUnreachable as error:
        return error.code.removeprefix("WB-SSH-HOSTKEY-")
    return "ok"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"box {LINE}", "ok"),
        (f"# comment\n\nbroken line\nother,box,third {LINE} me@laptop", "ok"),
        (f"b?x {LINE}", "ok"),
        (f"*,!box {LINE}", "UNKNOWN"),
        (f"other {LINE}", "UNKNOWN"),
        (f"box {OTHER}", "CHANGED"),
        (f"box {OTHER}\nbox {LINE}", "ok"),
        (f"@revoked * {LINE}\nbox {LINE}", "CHANGED"),
        (f"@cert-authority * {LINE}", "UNKNOWN"),
        ("", "UNKNOWN"),
        ("box ssh-ed25519 not-base64!", "UNKNOWN"),
        (f"BOX {LINE}", "ok"),
    ],
)
def test_known_hosts(tmp_path: Path, text: str, expected: str) -> None:
    assert verdict(tmp_path, text) == expected


def test_a_port_is_part_of_the_name(tmp_path: Path) -> None:
    assert hostkeys.lookup_name("h", 22) == "h"
    assert hostkeys.lookup_name("h", 2022) == "[h]:2022"
    assert hostkeys.lookup_name("h", 2022, "alias") == "alias"
    assert verdict(tmp_path, f"[h]:2022 {LINE}", "[h]:2022") == "ok"
    assert verdict(tmp_path, f"h {LINE}", "[h]:2022") == "UNKNOWN"


def test_algorithms_under_which_the_box_is_known_come_first(tmp_path: Path) -> None:
    (tmp_path / "k").write_text(f"box ssh-rsa {KEY.get_base64()}\n")
    order = hostkeys.preferred(hostkeys.read([tmp_path / "k"]), "box", ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"])
    assert order == ["rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519"]


def test_an_included_file_leaves_the_block_around_it(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("Host other\n  User wrong\n")
    (tmp_path / "config").write_text("Host box\n  Include part\n  Port 2022\nHost *\n  User right\n")
    assert lookup("box", tmp_path / "config") == {"hostname": "box", "port": "2022", "user": "right"}


def test_files_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Include config\n")
    with pytest.raises(UsageError, match="WB-SSH-CONFIG"):
        lookup("box", tmp_path / "config")


def test_what_an_alias_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(
        "Host box\n  HostName 10.0.0.7\n  Port 2022\n  User me\n  IdentityFile ~/k1\n  IdentityFile ~/k2\n"
        "  IdentitiesOnly yes\n  ProxyJump a,b\n  HostKeyAlias known\n  IdentityAgent none\n"
    )
    target = resolve("box")
    assert (target.host, target.port, target.user, target.key_name) == ("10.0.0.7", 2022, "me", "known")
    assert target.identity_files == (tmp_path / "k1", tmp_path / "k2")
    assert (target.identities_only, target.agent, target.proxy_jump) == (True, False, ("a", "b"))
    assert resolve("you@box:22").user == "you"
    assert resolve("you@box:22").port == 22
    assert resolve("ssh://you@[::1]:2200").host == "::1"


def test_keys_that_are_kept_nowhere_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``UserKnownHostsFile /dev/null``: a line appended there would be asked for again for ever."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host box\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n")
    target = resolve("box")
    with pytest.raises(BoxUnreachable, match="WB-SSH-HOSTKEY-UNKNOWN") as caught:
        hostkeys.verify(hostkeys.read(target.known_hosts), "box", KEY, target.known_hosts, unkept=target.unkept)
    assert "UserKnownHostsFile /dev/null" in caught.value.expected
    subprocess.run(["/bin/sh", "-c", caught.value.next.partition("add this very key: ")[2]], check=True)
    hostkeys.verify(hostkeys.read(target.known_hosts), "box", KEY, target.known_hosts)
