"""A folder of rank files: what the ranks share travels once, and each file comes out bit by bit as it is there."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import pytest
import ssh_servers
import torch
from box_support import CuttingProxy, target_of
from safetensors.torch import save_file

from helpers.box import Box, connect
from helpers.errors import RemoteFailed

RANKS = 8
MIB = 1 << 20


def capture(folder: Path, *, rows: int = 256, metadata: bool = True) -> int:
    """Eight rank files like a capture's: replicated taps, one tensor of each rank's own. Returns the distinct bytes."""
    torch.manual_seed(0)
    shared = {f"boundary.{b:03d}": torch.randn(rows, 1024).bfloat16() for b in range(4)}
    shared["positions"] = torch.arange(rows)
    shared["request"] = torch.zeros(rows + 1, dtype=torch.int32)
    distinct = sum(tensor.nbytes for tensor in shared.values())
    for rank in range(RANKS):
        mine = dict(shared)
        if rank >= 4:
            # Ranks 4 to 7 share a tensor that differs from ranks 0 to 3 in its very last value.
            other = shared["boundary.001"].clone()
            other[-1, -1] += 1
            mine["boundary.001"] = other
        mine["shard"] = torch.randn(rows, 33)
        distinct += mine["shard"].nbytes
        save_file(mine, folder / f"rank{rank}.safetensors", metadata={"rank": str(rank)} if metadata else None)
    (folder / "capture.json").write_text("{}")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 3600,) * 2)
    return distinct + shared["boundary.001"].nbytes


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("metadata", [True, False])
def test_shared_tensors_travel_once(box: Box, there: Path, tmp_path: Path, metadata: bool) -> None:
    distinct = capture(there, metadata=metadata)
    done = box.pull(str(there), tmp_path / "here", digest=True)
    assert digests(tmp_path / "here") == digests(there)
    assert done.verified == "sha256"
    assert distinct <= done.sent < distinct + 32 * 1024, "the headers, and no tensor twice"
    assert done.sent + done.not_sent == done.bytes
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests(there).items()))
    assert done.sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_what_is_here_already_serves_the_rest(box: Box, there: Path, tmp_path: Path) -> None:
    capture(there)
    here = tmp_path / "here"
    box.pull(str(there), here)
    (here / "rank5.safetensors").unlink()
    (here / "rank2.safetensors").write_bytes(b"not it")
    done = box.pull(str(there), here)
    assert digests(here) == digests(there)
    assert done.sent < done.bytes // RANKS, "their tensors are in the files that are here"


def test_cuts(ssh_server: ssh_servers.SshServer, there: Path, tmp_path: Path) -> None:
    capture(there, rows=1500)
    with (
        CuttingProxy(ssh_server.port, cut_every=(2 * MIB, 4 * MIB), cuts=4, seed=5) as proxy,
        connect(target_of(ssh_server, proxy.port)) as box,
    ):
        done = box.pull(str(there), tmp_path / "here", progress=False)
        assert proxy.cuts == 4
    assert done.resumed >= 4
    assert digests(tmp_path / "here") == digests(there)


def test_a_rank_file_that_changes_meanwhile(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(there, rows=4000)
    from helpers.box.meter import Meter

    original = Meter.sent_now
    came = [0]

    def counted(self: Meter, count: int) -> None:
        original(self, count)
        before, came[0] = came[0], came[0] + count
        if before < MIB <= came[0]:
            os.truncate(there / "rank7.safetensors", 1000)

    monkeypatch.setattr(Meter, "sent_now", counted)
    with pytest.raises(RemoteFailed, match="WB-PULL-CHANGED") as caught:
        box.pull(str(there), tmp_path / "here", progress=False)
    assert any("rank7.safetensors" in line for line in caught.value.lines)
    assert not (tmp_path / "here/rank7.safetensors").exists()
    assert not (tmp_path / "here/.rank7.safetensors.part").exists()


def test_without_python_each_file_travels_by_itself(
    box: Box, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(there, rows=32)
    monkeypatch.setattr("helpers.box.folders._code", lambda box: None)
    done = box.pull(str(there), tmp_path / "here")
    assert digests(tmp_path / "here") == digests(there)
    assert done.sent == done.bytes


def test_files_that_are_no_safetensors(box: Box, there: Path, tmp_path: Path) -> None:
    data = os.urandom(MIB)
    for name, content in {
        "a.pt": data,
        "b.pt": data,
        "c.pt": data[:-1] + b"?",
        "broken.safetensors": b"\xff" * 100,
        "short.safetensors": b"1234",
        "empty.safetensors": b"",
    }.items():
        (there / name).write_bytes(content)
        os.utime(there / name, (time.time() - 3600,) * 2)
    done = box.pull(str(there), tmp_path / "here")
    assert digests(tmp_path / "here") == digests(there)
    assert 2 * MIB <= done.sent < 2 * MIB + 4096


def test_a_look_at_tensors_without_their_bytes(openssh_server: ssh_servers.SshServer, tmp_path: Path) -> None:
    there = openssh_server.home / "near"
    there.mkdir()
    capture(there)
    with connect(target_of(openssh_server)) as box:
        _look(box, there)


def _look(box: Box, there: Path) -> None:
    near = box.near(sys.executable)
    files = [f"{there}/rank{rank}.safetensors" for rank in range(RANKS)]
    hashes = near.hashes(files)
    assert [item["sha256"] for item in hashes] == [digests(there)[f"rank{rank}.safetensors"] for rank in range(RANKS)]
    ranks = near.compare(files, ["boundary.000", "boundary.001", "shard"])
    assert [ranks[name]["equal"] for name in ("boundary.000", "boundary.001", "shard")] == [True, False, False]
    assert [item["same_bits"] for item in ranks["boundary.001"]["differences"]] == [True] * 3 + [False] * 4
    assert near.slice(files[0], "positions", (3, 6))["values"] == [3, 4, 5]
    with pytest.raises(RemoteFailed, match=r"WB-NEAR-DATA.*no tensor"):
        near.slice(files[0], "none", (0, 1))
    with pytest.raises(RemoteFailed, match="WB-NEAR-DATA"):
        near.hashes([f"{there}/capture.json"])
