"""Fixtures of the contract tier: one lab daemon and one OpenSSH sshd for the whole session, both on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers
from box_support import target_of

from helpers.box import Box, connect


@pytest.fixture(scope="session")
def openssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SshServer]:
    """A real sshd of this user; its HOME is an empty temporary folder."""
    with ssh_servers.openssh_server(tmp_path_factory.mktemp("openssh")) as server:
        yield server


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SshServer]:
    """The lab's own server, in a temporary WORKBOOK_LAB_HOME and without SGLang."""
    with ssh_servers.lab_server(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(params=["lab", "openssh"])
def ssh_server(request: pytest.FixtureRequest) -> ssh_servers.SshServer:
    """Each of the two in turn: what holds for one must hold for the other."""
    server: ssh_servers.SshServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def box(ssh_server: ssh_servers.SshServer) -> Iterator[Box]:
    """Our client, connected to each server in turn."""
    with connect(target_of(ssh_server)) as connected:
        yield connected


@pytest.fixture
def there(ssh_server: ssh_servers.SshServer, request: pytest.FixtureRequest) -> Path:
    """An empty folder of this test in the server's home, seen from this side."""
    folder = ssh_server.home / f"t{abs(hash(request.node.nodeid)):x}"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a lab that is not there yet; its name has a blank, as a checkout's may."""
    folder = tmp_path / "a lab"
    yield folder
    ssh_servers.remote_lab(folder, "down")
