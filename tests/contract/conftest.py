"""Fixtures of the contract tier: one lab daemon and one OpenSSH sshd for the whole session, both on the loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ssh_servers


@pytest.fixture(scope="session")
def openssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SshServer]:
    """A real sshd of this user; its HOME is an empty temporary folder."""
    with ssh_servers.openssh_server(tmp_path_factory.mktemp("openssh")) as server:
        yield server
