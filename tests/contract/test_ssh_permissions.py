"""Permission is lost while files travel, on either side: a clear error, and the file that was there is whole.

Root may do anything, so where the tests run as root both ends are `nobody` here: the commands of a real sshd's sessions
by setpriv, our own side by its effective user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ssh_servers
import torch
from box_support import CuttingProxy, target_of
from safetensors.torch import save_file

from helpers.box import Box, connect
from helpers.box.meter import Meter
from helpers.errors import RemoteFailed, UsageError

MIB = 1 << 20
ROOT = os.geteuid() == 0
NOBODY = 65534
OLD = b"what was there before"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that nobody reaches too; pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="wb-permissions-"))
    path.chmod(0o755)
    yield path
    for item in path.rglob("*"):
        if item.is_dir():
            item.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ssh_servers.SshServer]:
    start = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- " if ROOT else ""
    command = ssh_servers.forced_command(folder / "sshd/home", start)
    with ssh_servers.openssh_server(folder / "sshd", f"ForceCommand {command}") as running:
        given(running.home)
        given(running.client_key)
        yield running


def given(path: Path) -> Path:
    """``path``, now of the user that both ends are."""
    if ROOT:
        os.chown(path, NOBODY, NOBODY)
    return path


def put(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    os.utime(given(path), (time.time() - 3600,) * 2)
    return data


@pytest.fixture
def there(server: ssh_servers.SshServer, request: pytest.FixtureRequest) -> Path:
    path = server.home / f"t{abs(hash(request.node.nodeid)):x}"
    path.mkdir()
    return given(path)


@pytest.fixture
def here(folder: Path, request: pytest.FixtureRequest) -> Path:
    path = folder / f"here{abs(hash(request.node.nodeid)):x}"
    path.mkdir()
    return given(path)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Our own side without root's rights."""
    if not ROOT:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextlib.contextmanager
def box_behind(server: ssh_servers.SshServer) -> Iterator[tuple[Box, CuttingProxy]]:
    with CuttingProxy(server.port) as proxy, connect(target_of(server, proxy.port)) as box:
        yield box, proxy


def after(monkeypatch: pytest.MonkeyPatch, count: int, action: Callable[[], None]) -> None:
    """Do ``action`` once, when ``count`` bytes have travelled."""
    original, came = Meter.sent_now, [0]

    def counted(self: Meter, more: int) -> None:
        original(self, more)
        before, came[0] = came[0], came[0] + more
        if before < count <= came[0]:
            action()

    monkeypatch.setattr(Meter, "sent_now", counted)


def test_nobody_is_nobody(server: ssh_servers.SshServer, there: Path) -> None:
    put(there / "closed", b"x")
    (there / "closed").chmod(0)
    with connect(target_of(server)) as box:
        assert box.run(["id", "-u"]).stdout.strip() != "0"
        with pytest.raises(RemoteFailed, match=r"WB-FILE-READ(.*\n)+.*[Pp]ermission denied"):
            box.pull(f"{there}/closed", there / "copy")
    with unprivileged(), pytest.raises(PermissionError):
        (there / "closed").read_bytes()


@pytest.mark.parametrize("lost", ["file", "folder"])
def test_a_cut_pull_that_may_not_go_on(
    server: ssh_servers.SshServer, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    data = put(there / "x.bin", os.urandom(24 * MIB))
    put(here / "x.bin", OLD)
    with box_behind(server) as (box, proxy):

        def close() -> None:
            (there / "x.bin" if lost == "file" else there).chmod(0)
            proxy.cut()

        after(monkeypatch, 8 * MIB, close)
        with pytest.raises(RemoteFailed) as caught:
            box.pull(f"{there}/x.bin", here / "x.bin", progress=False)
        assert caught.value.code == ("WB-FILE-READ" if lost == "file" else "WB-PULL-CHANGED")
        assert any("denied" in line or "there is no" in line for line in caught.value.lines), caught.value.lines
        assert (here / "x.bin").read_bytes() == OLD
        for path in (there, there / "x.bin"):
            path.chmod(0o700)
        box.pull(f"{there}/x.bin", here / "x.bin", progress=False)
    assert (here / "x.bin").read_bytes() == data
    assert [path.name for path in here.iterdir()] == ["x.bin"]


def test_a_cut_pull_of_a_folder_that_may_not_go_on(
    server: ssh_servers.SshServer, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(3):
        save_file({"t": torch.randn(4 << 20), "mine": torch.full((3,), rank)}, there / f"rank{rank}.safetensors")
        put(there / f"rank{rank}.safetensors", (there / f"rank{rank}.safetensors").read_bytes())
    put(here / "rank2.safetensors", OLD)
    with box_behind(server) as (box, proxy):

        def close() -> None:
            (there / "rank2.safetensors").chmod(0)
            proxy.cut()

        after(monkeypatch, 8 * MIB, close)
        with pytest.raises(RemoteFailed, match="WB-PULL-STREAM") as caught:
            box.pull(str(there), here, progress=False)
        assert any("Permission denied" in line and "rank2" in line for line in caught.value.lines)
        assert (here / "rank2.safetensors").read_bytes() == OLD
        assert not (here / ".rank2.safetensors.part").exists()
        (there / "rank2.safetensors").chmod(0o600)
        box.pull(str(there), here, progress=False)
    assert {p.name: p.read_bytes() for p in here.iterdir()} == {p.name: p.read_bytes() for p in there.iterdir()}


def test_a_cut_push_that_may_not_go_on(
    server: ssh_servers.SshServer, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = put(here / "x.bin", os.urandom(24 * MIB))
    put(there / "x.bin", OLD)
    with box_behind(server) as (box, proxy):

        def close() -> None:
            for path in there.glob(".*.part"):
                path.chmod(0o400)
            there.chmod(0o500)
            proxy.cut()

        after(monkeypatch, 8 * MIB, close)
        with pytest.raises(RemoteFailed, match=r"WB-FILE-WRITE.*what was there before is untouched") as caught:
            box.push(here / "x.bin", f"{there}/x.bin", progress=False)
        assert any("denied" in line for line in caught.value.lines), caught.value.lines
        assert (there / "x.bin").read_bytes() == OLD
        there.chmod(0o700)
        for path in there.glob(".*.part"):
            path.chmod(0o600)
        box.push(here / "x.bin", f"{there}/x.bin", progress=False)
    assert (there / "x.bin").read_bytes() == data
    assert [path.name for path in there.iterdir()] == ["x.bin"]


def test_our_own_folder_may_not_be_written(server: ssh_servers.SshServer, there: Path, here: Path) -> None:
    put(there / "x.bin", os.urandom(MIB))
    put(here / "x.bin", OLD)
    here.chmod(0o500)
    with connect(target_of(server)) as box, unprivileged():
        for target in (here / "x.bin", here / "new/y.bin"):
            with pytest.raises(UsageError, match=r"WB-LOCAL-WRITE.*[Pp]ermission denied") as caught:
                box.pull(f"{there}/x.bin", target, progress=False)
            assert caught.value.exit_code == 2
        with pytest.raises(UsageError, match="WB-LOCAL-WRITE"):
            box.pull(str(there), here / "new", progress=False)
    assert (here / "x.bin").read_bytes() == OLD
    assert [path.name for path in here.iterdir()] == ["x.bin"]


def test_our_own_folder_is_closed_while_a_pull_is_cut(
    server: ssh_servers.SshServer, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = put(there / "x.bin", os.urandom(24 * MIB))
    put(here / "x.bin", OLD)
    with box_behind(server) as (box, proxy), unprivileged():

        def close() -> None:
            here.chmod(0o500)
            proxy.cut()

        after(monkeypatch, 8 * MIB, close)
        with pytest.raises(UsageError, match=r"WB-LOCAL-WRITE.*what has come is kept"):
            box.pull(f"{there}/x.bin", here / "x.bin", progress=False)
        assert (here / "x.bin").read_bytes() == OLD
        here.chmod(0o700)
        done = box.pull(f"{there}/x.bin", here / "x.bin", progress=False)
    assert done.sent == 0, "all of it had come; only the name could not be given"
    assert (here / "x.bin").read_bytes() == data
    assert [path.name for path in here.iterdir()] == ["x.bin"]


def test_what_of_ours_may_not_be_read(server: ssh_servers.SshServer, there: Path, here: Path) -> None:
    put(here / "x.bin", b"data")
    (here / "x.bin").chmod(0)
    put(there / "x.bin", OLD)
    (here / "folder/inner").mkdir(parents=True)
    given(here / "folder/inner").chmod(0)
    with connect(target_of(server)) as box, unprivileged():
        for path, remote in ((here / "x.bin", f"{there}/x.bin"), (here / "folder", f"{there}/folder")):
            with pytest.raises(UsageError, match="WB-LOCAL-READ") as caught:
                box.push(path, remote, progress=False)
            assert caught.value.exit_code == 2
        (here / "x.bin").chmod(0o200)
        put(there / "y.bin", b"same")
        (here / "x.bin").write_bytes(b"text")
        with pytest.raises(UsageError, match=r"WB-LOCAL-READ.*x\.bin"):
            box.pull(f"{there}/y.bin", here / "x.bin", progress=False)
    assert (there / "x.bin").read_bytes() == OLD
    assert not (there / "folder").exists()


def test_a_cut_push_of_a_file_that_may_not_be_read_any_more(
    server: ssh_servers.SshServer, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "x.bin", os.urandom(24 * MIB))
    put(there / "x.bin", OLD)
    with box_behind(server) as (box, proxy), unprivileged():

        def close() -> None:
            (here / "x.bin").chmod(0)
            proxy.cut()

        after(monkeypatch, 8 * MIB, close)
        with pytest.raises(UsageError, match="WB-LOCAL-READ"):
            box.push(here / "x.bin", f"{there}/x.bin", progress=False)
    assert (there / "x.bin").read_bytes() == OLD
