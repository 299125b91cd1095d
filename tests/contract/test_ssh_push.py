"""Files to the box: whole and right, or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import ssh_servers
from box_support import CuttingProxy, target_of

from helpers.box import Box, connect
from helpers.errors import RemoteFailed, UsageError

MIB = 1 << 20


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [0, 1, 5 * MIB + 3])
def test_a_file(box: Box, there: Path, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "x").write_bytes(data)
    (tmp_path / "x").chmod(0o751)
    done = box.push(tmp_path / "x", f"{there}/deep/a 'name'")
    assert (there / "deep/a 'name'").read_bytes() == data
    assert (there / "deep/a 'name'").stat().st_mode & 0o777 == 0o751
    assert (done.sha256, done.sent, done.verified) == (hashlib.sha256(data).hexdigest(), size, "sha256")
    assert names(there) == ["deep/a 'name'"]
    again = box.push(tmp_path / "x", f"{there}/deep/a 'name'")
    assert (again.sent, again.not_sent) == (0, size)


def test_a_folder_and_back(box: Box, there: Path, tmp_path: Path) -> None:
    content = {"a.json": b"{}", "sub/b.bin": os.urandom(2 * MIB), "empty": b"", "new\nline": b"x"}
    for name, data in content.items():
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(data)
    done = box.push(tmp_path / "out", f"{there}/in")
    assert {name: (there / "in" / name).read_bytes() for name in names(there / "in")} == content
    assert done.sha256 == box.pull(f"{there}/in", tmp_path / "back").sha256
    (tmp_path / "out/a.json").write_bytes(b"[]")
    again = box.push(tmp_path / "out", f"{there}/in")
    assert again.sent == 2
    assert (there / "in/a.json").read_bytes() == b"[]"


def test_into_an_existing_folder(box: Box, there: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"data")
    box.push(tmp_path / "x", str(there))
    assert (there / "x").read_bytes() == b"data"


def test_cuts_in_a_push(ssh_server: ssh_servers.SshServer, there: Path, tmp_path: Path) -> None:
    data = os.urandom(24 * MIB)
    (tmp_path / "x").write_bytes(data)
    with CuttingProxy(ssh_server.port, cut_up_every=(3 * MIB, 6 * MIB), cuts=4, seed=3) as proxy:
        with connect(target_of(ssh_server, proxy.port)) as box:
            done = box.push(tmp_path / "x", f"{there}/x", progress=False)
        assert proxy.cuts == 4
    assert (there / "x").read_bytes() == data
    assert done.resumed >= 4
    assert names(there) == ["x"]


def test_a_full_disk_there(box: Box, there: Path, tmp_path: Path, ssh_server: ssh_servers.SshServer) -> None:
    (tmp_path / "x").write_bytes(os.urandom(4 * MIB))
    (there / "x").write_bytes(b"old")
    rc = ssh_server.home / ".bashrc"
    rc.write_text("ulimit -f 1024\n")  # no file above a MiB: as near to a full disk as can be had everywhere
    try:
        with pytest.raises(RemoteFailed, match="WB-FILE-WRITE") as caught:
            box.push(tmp_path / "x", f"{there}/x")
        with pytest.raises(RemoteFailed, match="WB-FILE-WRITE"):
            box.write_bytes(f"{there}/x", os.urandom(2 * MIB))
    finally:
        rc.unlink()
    assert caught.value.exit_code == 4
    assert (there / "x").read_bytes() == b"old"
    assert names(there) == ["x"]


def test_too_little_room_there(box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"data")
    monkeypatch.setattr("helpers.box.pushing._look", lambda box, full: ("-", 0, 3))
    with pytest.raises(RemoteFailed, match="WB-DISK-FULL"):
        box.push(tmp_path / "x", f"{there}/x")
    assert names(there) == []


def test_a_place_that_cannot_be_written(box: Box, there: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"data")
    (there / "file").write_bytes(b"")
    with pytest.raises(RemoteFailed, match="WB-FILE-WRITE"):
        box.push(tmp_path / "x", f"{there}/file/x")
    with pytest.raises(UsageError, match="WB-PUSH-MISSING"):
        box.push(tmp_path / "none", f"{there}/x")


def test_a_file_that_changes_while_it_is_pushed(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(4 * MIB))
    (there / "x").write_bytes(b"old")
    from helpers.box import pushing

    original = pushing._blocks

    def blocks(*arguments: object) -> object:
        path.write_bytes(os.urandom(4 * MIB))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pushing, "_blocks", blocks)
    with pytest.raises(RemoteFailed, match="WB-PUSH-CHANGED"):
        box.push(path, f"{there}/x")
    assert (there / "x").read_bytes() == b"old"
    assert names(there) == ["x"]


def test_small_files_whole_or_not_at_all(box: Box, there: Path) -> None:
    box.write_text(f"{there}/new/note.txt", "héllo\n", mode=0o600)
    assert box.read_text(f"{there}/new/note.txt") == "héllo\n"
    assert (there / "new/note.txt").stat().st_mode & 0o777 == 0o600
    box.write_text(f"{there}/new/note.txt", "again")
    assert (there / "new/note.txt").stat().st_mode & 0o777 == 0o600, "a replaced file keeps its mode"
    assert names(there) == ["new/note.txt"]
    with pytest.raises(RemoteFailed, match="WB-FILE-MISSING"):
        box.read_bytes(f"{there}/none")
