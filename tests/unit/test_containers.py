"""A server in a container is told as that, whoever's process it is: by what /proc shows of anybody's.

.venv/bin/python -m pytest tests/unit/test_containers.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.box.facts.answer import Absent
from helpers.box.facts.launched import launched
from helpers.box.facts.servers import Process, Server
from helpers.source.served import unasked
from remote import engines

ID = "3f2a9c1b4d5e" + "0" * 52
OTHER = "77aa9c1b4d5e" + "0" * 52
ARGV = ("python3", "-m", "sglang.launch_server", "--model-path", "/m")


def made(folder: Path, name: str, cgroup: str | None, nspid: str | None = "1") -> str:
    base = folder / name
    base.mkdir()
    if cgroup is not None:
        (base / "cgroup").write_text(cgroup)
    if nspid is not None:
        (base / "status").write_text(f"Name:\tpython3\nPid:\t7\nNSpid:\t{nspid}\nNSsid:\t1\n")
    return str(base)


@pytest.mark.parametrize(
    ("own", "its", "nspid", "told"),
    [
        ("0::/user.slice\n", f"0::/system.slice/docker-{ID}.scope\n", "7", "docker 3f2a9c1b4d5e"),
        ("0::/\n", f"12:pids:/docker/{ID}\n11:cpuset:/docker/{ID}\n", "7", "docker 3f2a9c1b4d5e"),
        ("0::/\n", f"0::/machine.slice/libpod-{ID}.scope/container\n", "7", "libpod 3f2a9c1b4d5e"),
        (
            "0::/\n",
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1a.slice/cri-containerd-{ID}.scope\n",
            "7",
            "cri-containerd 3f2a9c1b4d5e",
        ),
        ("0::/\n", "0::/lxc.payload.box/system.slice\n", "7", "lxc box"),
        ("0::/\n", "4:devices:/lxc/box\n", "7", "lxc box"),
        ("0::/\n", "0::/user.slice/user-0.slice\n", "7\t1", "with process numbers of its own"),
        # Not a container, or the one that this box is itself.
        ("0::/\n", "0::/user.slice/user-0.slice/session-3.scope\n", "7", None),
        ("0::/\n", "0::/system.slice/docker.service\n", "7", None),
        (f"0::/docker/{ID}\n", f"0::/docker/{ID}\n", "7", None),
        (f"0::/docker/{ID}\n", f"0::/docker/{OTHER}\n", "7", "docker 77aa9c1b4d5e"),
        (None, None, None, None),
    ],
)
def test_the_container_of_a_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str | None,
    its: str | None,
    nspid: str | None,
    told: str | None,
) -> None:
    monkeypatch.setattr(engines, "PROC", str(tmp_path))
    made(tmp_path, "self", own)
    assert engines.container(made(tmp_path, "7", its, nspid)) == told


def server(**change: object) -> Server:
    process = {
        "pid": 7,
        "ppid": 1,
        "start_time": 1,
        "seconds": 1.0,
        "user": "root",
        "mine": False,
        "name": "python3",
        "argv": ARGV,
        "exe": None,
        "cwd": None,
        "interpreter": None,
        "env": None,
        "same_root": None,
        "nvidia": None,
    }
    how = launched(ARGV)
    assert how is not None
    return Server(process=Process.model_validate(process | change), launched=how)


def test_roots_server_in_a_container_is_no_reason_to_be_root() -> None:
    """Must-show: the usual box, SGLang in Docker as root, and a login that is not root."""
    told = unasked(server(container="docker 3f2a9c1b4d5e"))
    assert isinstance(told, Absent)
    assert "container (docker 3f2a9c1b4d5e)" in told.absent
    assert "connect as root" not in told.absent
    mine = unasked(server(mine=True, same_root=False, interpreter="/usr/bin/python3", env={}))
    assert isinstance(mine, Absent)
    assert "in a container, whose files" in mine.absent
    hers = unasked(server(user="ann"))
    assert isinstance(hers, Absent)
    assert "connect as ann" in hers.absent


def test_this_very_process_is_in_no_container_of_its_own() -> None:
    assert engines.container("/proc/self") is None
