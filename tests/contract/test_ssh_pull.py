"""Files from the box: whole and right, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers
from box_support import CuttingProxy, target_of

from helpers.box import Box, connect
from helpers.errors import BoxUnreachable, RemoteFailed, UsageError, WorkbookError

MIB = 1 << 20
OLD = time.time() - 3600


def write(path: Path, data: bytes, *, old: bool = True) -> str:
    """A file that nobody has written to for an hour; its sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if old:
        os.utime(path, (OLD, OLD))
    return hashlib.sha256(data).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [0, 1, 5 * MIB + 3])
def test_a_file(box: Box, there: Path, tmp_path: Path, size: int) -> None:
    digest = write(there / "a file", os.urandom(size))
    (there / "a file").chmod(0o640)
    done = box.pull(f"{there}/a file", tmp_path / "new/name")
    assert (tmp_path / "new/name").read_bytes() == (there / "a file").read_bytes()
    assert (done.sha256, done.bytes, done.sent, done.not_sent, done.files) == (digest, size, size, 0, 1)
    assert done.verified == "sha256"
    assert names(tmp_path) == ["new/name"]
    assert (tmp_path / "new/name").stat().st_mode & 0o777 == 0o640
    assert json.loads(json.dumps(done.to_json()))["sha256"] == digest


def test_into_an_existing_folder_and_over_a_file(box: Box, there: Path, tmp_path: Path) -> None:
    digest = write(there / "x.bin", b"new" * 1000)
    (tmp_path / "x.bin").write_bytes(b"old")
    (tmp_path / "x.bin").chmod(0o600)
    assert box.pull(f"{there}/x.bin", tmp_path).sha256 == digest
    assert (tmp_path / "x.bin").read_bytes() == b"new" * 1000
    assert (tmp_path / "x.bin").stat().st_mode & 0o777 == 0o600


def test_what_is_here_already_does_not_travel(box: Box, there: Path, tmp_path: Path) -> None:
    write(there / "x.bin", os.urandom(3 * MIB))
    box.pull(f"{there}/x.bin", tmp_path)
    inode = (tmp_path / "x.bin").stat().st_ino
    again = box.pull(f"{there}/x.bin", tmp_path)
    assert (again.sent, again.not_sent) == (0, 3 * MIB)
    assert (tmp_path / "x.bin").stat().st_ino == inode


def test_a_folder(box: Box, there: Path, tmp_path: Path) -> None:
    content = {
        "capture.json": b"{}",
        "deep/er/data.bin": os.urandom(2 * MIB),
        "empty": b"",
        "odd 'name'\n$(x)": b"odd",
        "-dash": b"dash",
        "twin-1": b"t" * MIB,
        "twin-2": b"t" * MIB,
    }
    for name, data in content.items():
        write(there / name, data)
    (there / "link").symlink_to(there / "capture.json")
    (there / "dangling").symlink_to(there / "nowhere")
    os.mkfifo(there / "pipe")
    done = box.pull(str(there), tmp_path / "here", digest=True)
    content["link"] = b"{}"
    assert {name: (tmp_path / "here" / name).read_bytes() for name in names(tmp_path / "here")} == content
    assert done.files == len(content)
    assert done.skipped == ("dangling", "pipe")
    assert done.sent < done.bytes - MIB + 100, "the second twin need not travel"
    lines = "".join(f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in sorted(content))
    assert done.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    again = box.pull(str(there), tmp_path / "here")
    assert (again.sent, again.sha256) == (0, done.sha256)


def test_what_is_no_ordinary_file_is_refused_and_an_empty_path_is_not_the_home(
    box: Box, there: Path, tmp_path: Path
) -> None:
    os.mkfifo(there / "pipe")
    for path in ("/dev/zero", str(there / "pipe")):
        with pytest.raises(RemoteFailed, match="is no ordinary file") as caught:
            box.pull(path, tmp_path / "x", progress=False)
        assert caught.value.code == "WB-FILE-READ"
    for work in (lambda: box.pull("", tmp_path / "x"), lambda: box.push(tmp_path, "")):
        with pytest.raises(UsageError, match="the path on the box is empty"):
            work()
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_a_message_suggests_runs_nothing_of_a_name(box: Box, there: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteFailed) as caught:
        box.pull(str(there / "$(touch x)/a b"), tmp_path / "x", progress=False)
    assert caught.value.next == f"workbook run {box.name} -- ls -ld '{there}/$(touch x)'"


def test_a_missing_file(box: Box, there: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteFailed, match="WB-FILE-MISSING"):
        box.pull(f"{there}/none", tmp_path / "x")
    assert names(tmp_path) == []


@pytest.fixture
def writer(there: Path) -> Iterator[Path]:
    """A file that grows until the test ends."""
    path, stop = there / "growing", threading.Event()
    path.write_bytes(b"start\n")

    def grow() -> None:
        while not stop.wait(0.1):
            with path.open("ab") as file:
                file.write(b"more\n" * 1000)

    thread = threading.Thread(target=grow)
    thread.start()
    yield path
    stop.set()
    thread.join()


def test_a_growing_file_is_refused(box: Box, writer: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(RemoteFailed, match="WB-PULL-GROWING") as caught:
        box.pull(str(writer), tmp_path / "x")
    assert "->" in caught.value.lines[0]
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_waiting_for_a_growing_file(box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.box.transfer.SETTLED", 0.3)
    path = there / "growing"
    path.write_bytes(b"")

    def grow() -> None:
        for _ in range(5):
            time.sleep(0.2)
            with path.open("ab") as file:
                file.write(b"more\n")

    thread = threading.Thread(target=grow)
    thread.start()
    box.pull(str(path), tmp_path / "x", wait=True)
    thread.join()
    assert (tmp_path / "x").read_bytes() == b"more\n" * 5


def during(box: Box, monkeypatch: pytest.MonkeyPatch, action: object, after: int = MIB) -> None:
    """Have ``action`` happen once ``after`` bytes of a pull have come."""
    from helpers.box.meter import Meter

    original, came = Meter.sent_now, [0]

    def counted(self: Meter, count: int) -> None:
        original(self, count)
        before, came[0] = came[0], came[0] + count
        if before < after <= came[0]:
            action()  # type: ignore[operator]

    monkeypatch.setattr(Meter, "sent_now", counted)


@pytest.mark.parametrize("what", ["truncated", "appended", "rewritten", "deleted"])
def test_a_file_that_changes_meanwhile(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = there / "x.bin"
    write(path, os.urandom(48 * MIB))
    (tmp_path / "x.bin").write_bytes(b"old")

    def change() -> None:
        if what == "truncated":
            os.truncate(path, 30 * MIB)
        elif what == "appended":
            with path.open("ab") as file:
                file.write(b"x" * 100)
        elif what == "rewritten":
            with path.open("r+b") as file:
                file.seek(47 * MIB)
                file.write(os.urandom(MIB))
        else:
            path.unlink()

    during(box, monkeypatch, change)
    with pytest.raises(RemoteFailed, match="WB-PULL-CHANGED"):
        box.pull(str(path), tmp_path / "x.bin", progress=False)
    assert (tmp_path / "x.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["x.bin"], "what had come is worth nothing now"


def test_a_full_disk_here(box: Box, there: Path, tmp_path: Path) -> None:
    write(there / "x.bin", os.urandom(8 * MIB))
    (tmp_path / "x.bin").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, hard))
    try:
        with pytest.raises(UsageError, match="WB-DISK-FULL") as caught:
            box.pull(f"{there}/x.bin", tmp_path / "x.bin")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.exit_code == 2
    assert (tmp_path / "x.bin").read_bytes() == b"old"
    # With room again, what had come is not sent again.
    done = box.pull(f"{there}/x.bin", tmp_path / "x.bin")
    assert done.not_sent == 3 * MIB
    assert (tmp_path / "x.bin").read_bytes() == (there / "x.bin").read_bytes()


def test_too_little_room_is_seen_before_the_start(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shutil import _ntuple_diskusage

    write(there / "x.bin", os.urandom(MIB))
    monkeypatch.setattr("shutil.disk_usage", lambda _: _ntuple_diskusage(10 * MIB, 10 * MIB - 5, 5))
    with pytest.raises(UsageError, match="WB-DISK-FULL"):
        box.pull(f"{there}/x.bin", tmp_path / "x.bin")
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written(box: Box, there: Path, tmp_path: Path) -> None:
    write(there / "x.bin", b"data")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="WB-LOCAL-WRITE"):
        box.pull(f"{there}/x.bin", tmp_path / "file/x.bin")


def test_two_pulls_into_one_place(box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(there / "x.bin", os.urandom(4 * MIB))
    seen: list[WorkbookError] = []

    def second() -> None:
        try:
            box.pull(f"{there}/x.bin", tmp_path / "x.bin")
        except UsageError as error:
            seen.append(error)

    during(box, monkeypatch, second, after=1)
    box.pull(f"{there}/x.bin", tmp_path / "x.bin")
    assert [error.code for error in seen] == ["WB-PULL-BUSY"]


def cuts(
    server: ssh_servers.SshServer, source: Path, target: Path, size: int, count: int, seed: int
) -> tuple[object, CuttingProxy]:
    between = (size // (2 * count + 2), size // (count + 1))
    with CuttingProxy(server.port, cut_every=between, cuts=count, seed=seed) as proxy:
        with connect(target_of(server, proxy.port)) as box:
            done = box.pull(str(source), target, progress=False)
        return done, proxy


def test_cuts_in_a_pull(ssh_server: ssh_servers.SshServer, there: Path, tmp_path: Path) -> None:
    size = 24 * MIB
    digest = write(there / "x.bin", os.urandom(size))
    done, proxy = cuts(ssh_server, there / "x.bin", tmp_path / "x.bin", size, count=5, seed=1)
    assert done.sha256 == digest == hashlib.sha256((tmp_path / "x.bin").read_bytes()).hexdigest()  # type: ignore[attr-defined]
    assert proxy.cuts == 5
    assert done.resumed >= 5  # type: ignore[attr-defined]
    assert done.sent == size  # type: ignore[attr-defined]


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twenty_cuts_in_256_mib(ssh_server: ssh_servers.SshServer, there: Path, tmp_path: Path, seed: int) -> None:
    size = 256 * MIB
    digest = write(there / "x.bin", os.urandom(size))
    done, proxy = cuts(ssh_server, there / "x.bin", tmp_path / "x.bin", size, count=20, seed=seed)
    assert done.sha256 == digest == hashlib.sha256((tmp_path / "x.bin").read_bytes()).hexdigest()  # type: ignore[attr-defined]
    assert proxy.cuts == 20
    # All that the server sent, with what was on its way when the link broke, handshakes and packets' own bytes.
    print(f"sent {proxy.down}, {100 * (proxy.down / size - 1):.1f}% more than the file")
    assert proxy.down < 1.10 * size


def test_a_link_that_stays_away(ssh_server: ssh_servers.SshServer, there: Path, tmp_path: Path) -> None:
    size = 24 * MIB
    write(there / "x.bin", os.urandom(size))
    (tmp_path / "x.bin").write_bytes(b"old")
    with CuttingProxy(ssh_server.port, cut_every=(8 * MIB, 9 * MIB), cuts=1) as proxy:
        box = connect(target_of(ssh_server, proxy.port), timeout=3)

        def gone(_: float) -> None:
            proxy.close_for_good()

        with pytest.MonkeyPatch.context() as patch, box:
            patch.setattr("helpers.box.resuming._PAUSES", (0.0, 0.01, 0.01))
            during(box, patch, lambda: gone(0), after=4 * MIB)
            with pytest.raises(BoxUnreachable, match="WB-SSH-CONNECT") as caught:
                box.pull(str(there / "x.bin"), tmp_path / "x.bin", progress=False)
    assert "what has come is kept" in caught.value.next
    assert (tmp_path / "x.bin").read_bytes() == b"old"
    with connect(target_of(ssh_server, port=ssh_server.port, host="localhost", name="same")) as box:
        # Another address is another source for all we know: the part is not trusted.
        assert box.pull(str(there / "x.bin"), tmp_path / "y.bin").not_sent == 0


def test_ctrl_c_leaves_nothing_running_and_keeps_what_has_come(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = there / "x.bin"
    write(path, os.urandom(4 * MIB))
    # A hash that takes its time, as that of a large file does.
    mark = f"60.{time.monotonic_ns() % 10**9:09}"
    monkeypatch.setattr("helpers.box.hashing._SCRIPT", f"exec sleep {mark}")

    def interrupt() -> None:
        raise KeyboardInterrupt

    during(box, monkeypatch, interrupt, after=2 * MIB)
    with pytest.raises(KeyboardInterrupt):
        box.pull(str(path), tmp_path / "x.bin", progress=False)
    monkeypatch.undo()
    assert box.run(["pgrep", "-f", f"^sleep {mark}$"], check=False).stdout == ""
    assert names(tmp_path) == [".x.bin.part", ".x.bin.part.json"]
    done = box.pull(str(path), tmp_path / "x.bin", progress=False)
    assert done.not_sent >= MIB
    assert (tmp_path / "x.bin").read_bytes() == path.read_bytes()
