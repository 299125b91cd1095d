"""The box's transport against OpenSSH's own tools, on the same server."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.rows import Row, by_turns
from benchmarks.sshd import Server, running
from helpers.box import connect

MIB = 1 << 20
RANKS = 8


REPLICAS = ("pull_8_replicas_vs_scp", "pull_8_replicas_vs_tee")
NAMES = ("pull_vs_scp_verified", "pull_vs_scp", *REPLICAS, "exec_vs_ssh_mux")


def rows(names: Sequence[str] = NAMES) -> Iterator[Row]:
    """The rows called so; each names its peer and what both did."""
    with tempfile.TemporaryDirectory(prefix="wb-bench-") as name:
        folder = Path(name)
        with running(folder) as server:
            if pulls := [name for name in names if name.startswith("pull_vs")]:
                yield from _pulls(server, folder, pulls)
            if replicas := [name for name in names if name in REPLICAS]:
                yield from _replicas(server, folder, replicas)
            if "exec_vs_ssh_mux" in names:
                yield _round_trip(server)


def _aged(path: Path) -> None:
    """Files that were written a while ago, as captures usually are: a fresh one would be watched for a second first."""
    for item in [path, *path.rglob("*")]:
        os.utime(item, (time.time() - 3600,) * 2)


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _scp(server: Server, source: Path, target: Path, *options: str) -> None:
    subprocess.run(["scp", "-q", "-F", server.ssh_config, *options, f"box:{source}", target], check=True)


def _pulls(server: Server, folder: Path, names: Sequence[str]) -> Iterator[Row]:
    size = 256
    source, ours, theirs = server.home / "random.bin", folder / "ours.bin", folder / "theirs.bin"
    source.write_bytes(os.urandom(size * MIB))
    _aged(source)

    def clear() -> None:
        _clear(ours)
        _clear(theirs)

    def pull() -> None:
        with connect(server.target) as box:
            box.pull(str(source), ours, progress=False)

    def plain() -> None:
        _scp(server, source, theirs)

    def verified() -> None:
        plain()
        there = subprocess.run(
            ["ssh", "-F", server.ssh_config, "box", f"sha256sum {source}"], capture_output=True, text=True, check=True
        )
        here = subprocess.run(["sha256sum", theirs], capture_output=True, text=True, check=True)
        assert there.stdout.split()[0] == here.stdout.split()[0]

    what = f"{size} MiB of random bytes, connections included; ours verifies sha256 against the box"
    for name, peer, words in (
        ("pull_vs_scp_verified", verified, "scp, then sha256sum on both ends"),
        ("pull_vs_scp", plain, "scp, which verifies nothing"),
    ):
        if name in names:
            times = by_turns(pull, peer, before=clear)
            yield Row(name, times.speedup, "x", f"{what}; peer: {words}; {times}")
    for path in (source, ours, theirs):
        _clear(path)


def _replicas(server: Server, folder: Path, names: Sequence[str]) -> Iterator[Row]:
    source, ours, theirs = server.home / "capture", folder / "ours", folder / "theirs"
    source.mkdir()
    tensors = {f"boundary.{number:03d}": torch.randn(4096, 4096).bfloat16() for number in range(4)}
    for rank in range(RANKS):
        save_file(tensors, source / f"rank{rank}.safetensors", metadata={"rank": str(rank)})
    size = sum(path.stat().st_size for path in source.iterdir()) / MIB
    _aged(source)

    def clear() -> None:
        _clear(ours)
        _clear(theirs)

    def pull() -> None:
        with connect(server.target) as box:
            box.pull(str(source), ours, progress=False)

    def copy() -> None:
        _scp(server, source, theirs, "-r")

    def tee() -> None:
        """What any tool must do at least: one file over the link, eight written. Nothing compared, nothing verified."""
        theirs.mkdir()
        ssh = ["ssh", "-F", server.ssh_config, "-c", "aes128-gcm@openssh.com", "box", f"cat {source}/rank0.safetensors"]
        with subprocess.Popen(ssh, stdout=subprocess.PIPE) as sender:
            targets = [theirs / f"rank{rank}.safetensors" for rank in range(RANKS)]
            subprocess.run(["tee", *targets], stdin=sender.stdout, stdout=subprocess.DEVNULL, check=True)
        assert sender.returncode == 0, "ssh failed"

    pull()
    same = all(filecmp.cmp(ours / path.name, path, shallow=False) for path in source.iterdir())
    assert same, "the files differ"
    what = f"{RANKS} rank files with equal tensors and headers of their own, {size:.0f} MiB, connections included"
    for name, peer, words in (
        ("pull_8_replicas_vs_scp", copy, "scp -r"),
        ("pull_8_replicas_vs_tee", tee, "one file by ssh cat, eight written by tee, nothing compared or verified"),
    ):
        if name in names:
            times = by_turns(pull, peer, before=clear)
            yield Row(name, times.speedup, "x", f"{what}; peer: {words}; {times}")
    for path in (source, ours, theirs):
        _clear(path)


def _round_trip(server: Server) -> Row:
    ssh = ["ssh", "-F", server.ssh_config, "mux"]
    subprocess.run([*ssh, "true"], check=True)
    try:
        with connect(server.target) as box:
            times = by_turns(
                lambda: box.run(["true"]), lambda: subprocess.run([*ssh, "true"], check=True), times=51, warm_up=5
            )
    finally:
        subprocess.run([*ssh[:-1], "-O", "exit", "mux"], check=True, capture_output=True)
    what = "`true` on an open connection, its process group known and its exit status back"
    return Row("exec_vs_ssh_mux", times.share, "of the peer's time", f"{what}; peer: ssh with ControlMaster; {times}")
