"""A login that may only transfer files: SFTP does what it can, and says what it cannot check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers
from box_support import CuttingProxy, target_of

from helpers.box import connect
from helpers.errors import RemoteFailed

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SshServer]:
    folder = tmp_path_factory.mktemp("sftp-only")
    with ssh_servers.openssh_server(folder, f"ForceCommand internal-sftp -d {folder / 'home'}") as running:
        yield running


def test_files_work_and_commands_say_why_not(server: ssh_servers.SshServer, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB + 1)
    (tmp_path / "x").write_bytes(data)
    with connect(target_of(server)) as box:
        assert not box.has_shell
        assert box.home == str(server.home)
        with pytest.raises(RemoteFailed, match="WB-RUN-NO-SHELL"):
            box.run(["true"])
        pushed = box.push(tmp_path / "x", "~/deep/x")
        assert (server.home / "deep/x").read_bytes() == data
        (server.home / "deep/y").write_bytes(b"y")
        pulled = box.pull("~/deep", tmp_path / "back")
        assert (tmp_path / "back/x").read_bytes() == data
        assert (pushed.verified, pulled.verified, pulled.files) == ("size", "size", 2)
        box.write_text("note", "hello")
        assert box.read_text("note") == "hello"
        with pytest.raises(RemoteFailed, match="WB-FILE-MISSING"):
            box.read_text("none")
        with pytest.raises(RemoteFailed, match="WB-FILE-MISSING"):
            box.pull("none", tmp_path / "none")


def test_cuts(server: ssh_servers.SshServer, tmp_path: Path) -> None:
    data = os.urandom(16 * MIB)
    (server.home / "big").write_bytes(data)
    with (
        CuttingProxy(server.port, cut_every=(3 * MIB, 5 * MIB), cuts=3) as proxy,
        connect(target_of(server, proxy.port)) as box,
    ):
        done = box.pull("big", tmp_path / "big", progress=False)
        assert proxy.cuts == 3
    assert (tmp_path / "big").read_bytes() == data
    assert done.sent == len(data)
