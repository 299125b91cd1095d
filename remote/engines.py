"""Processes of the box that have to do with SGLang, as /proc shows them: ``python3 -c SOURCE [PID ...]``.

One JSON object a line: first ``{"boot_id", "hidden", "processes"}``, then one for each process with ``sglang`` in its
command line, and for each PID asked for. What this login may not see of a process is null. Sent with the call, not
uploaded. Standard library only, Python 3.7 or later; Linux.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import sys
from typing import Any

# What decides which interpreter starts and what it imports, whose box it is (a second lab of the same user has another
# home), and the mark of a run of the workbook.
NAMES = (
    "HOME",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSAFEPATH",
    "PYTHONNOUSERSITE",
    "PYTHONUSERBASE",
    "LD_LIBRARY_PATH",
    "WORKBOOK_RUN",
)
PROC = "/proc"
# The group that container engines put a process into: docker-<id>.scope or docker/<id>; lxc/<name>.
GROUP = re.compile(
    r"(docker|libpod|cri-containerd|containerd|crio|nerdctl)\b[^\n]*?([0-9a-f]{64})|(?<=/)lxc(?:\.payload)?[./]([^/\n]+)"
)


def describe(pid: int) -> dict[str, Any] | None:
    """One process; None when it is gone, or only waits to be buried."""
    base = os.path.join(PROC, str(pid))
    try:
        with open(base + "/stat", "rb") as file:
            stat = file.read().decode("utf-8", "surrogateescape")
        with open(base + "/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
        uid = os.stat(base).st_uid
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    env = environment(base)
    exe, cwd = link(base + "/exe"), link(base + "/cwd")
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "start_time": int(fields[19]),
        "seconds": round(uptime() - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 1),
        "user": user(uid),
        "mine": uid == os.getuid(),
        "name": stat[stat.index("(") + 1 : stat.rindex(")")],
        "argv": words if words != [""] else [],
        "exe": exe,
        "cwd": cwd,
        "interpreter": interpreter(words[0], exe, cwd, env or {}),
        "env": None if env is None else {name: env[name] for name in NAMES if name in env},
        "same_root": same_root(base),
        "container": container(base),
        "nvidia": nvidia(base),
    }


def interpreter(word: str, exe: str | None, cwd: str | None, env: dict[str, str]) -> str | None:
    """The program as it was called, so that a virtual environment's stays one; else the file that runs."""
    if exe is None:
        return None
    called = os.path.join(cwd or "/", word) if "/" in word else shutil.which(word, path=env.get("PATH", os.defpath))
    return os.path.abspath(called) if called and os.path.realpath(called) == exe else exe


def environment(base: str) -> dict[str, str] | None:
    try:
        with open(base + "/environ", "rb") as file:
            pairs = file.read().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return None
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def same_root(base: str) -> bool | None:
    """Whether the process sees the same files as this one; a container's does not."""
    try:
        return os.readlink(base + "/ns/mnt") == os.readlink(PROC + "/self/ns/mnt")
    except OSError:
        return None


def container(base: str) -> str | None:
    """The container that a process runs in and this one does not, such as ``docker 3f2a9c1b4d5e``.

    Told by its control group, and by process numbers of its own: both may be read of anybody's process, where the mount
    namespace is shown for one's own only. None: none that shows.
    """
    its = of_group(base)
    if its is not None and its != of_group(PROC + "/self"):
        return its
    return "with process numbers of its own" if numbers(base) > numbers(PROC + "/self") else None


def of_group(base: str) -> str | None:
    try:
        with open(base + "/cgroup", encoding="utf-8", errors="replace") as file:
            found = GROUP.search(file.read())
    except OSError:
        return None
    if found is None:
        return None
    return f"lxc {found[3]}" if found[3] else f"{found[1]} {found[2][:12]}"


def numbers(base: str) -> int:
    """In how many process namespaces, from this one inwards, a process has a number; 1 where that is not told."""
    try:
        with open(base + "/status", encoding="utf-8", errors="replace") as file:
            return next((len(line.split()) - 1 for line in file if line.startswith("NSpid:")), 1)
    except OSError:
        return 1


def nvidia(base: str) -> bool | None:
    """Whether the process has a GPU open."""
    try:
        handles = os.listdir(base + "/fd")
    except OSError:
        return None
    return any((link(base + "/fd/" + handle) or "").startswith("/dev/nvidia") for handle in handles)


def link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uptime() -> float:
    with open(PROC + "/uptime") as file:
        return float(file.read().split()[0])


def mentions(pid: int, word: bytes) -> bool:
    try:
        with open(os.path.join(PROC, str(pid), "cmdline"), "rb") as file:
            return word in file.read()
    except OSError:
        return False


def main(asked: list[int]) -> None:
    pids = sorted(int(name) for name in os.listdir(PROC) if name.isdigit())
    with open(PROC + "/sys/kernel/random/boot_id") as file:
        # Without process 1 in sight, /proc is mounted so that other users' processes are hidden.
        head = {"boot_id": file.read().strip(), "hidden": 1 not in pids, "processes": len(pids)}
    print(json.dumps(head))
    for pid in pids:
        if pid != os.getpid() and (pid in asked or mentions(pid, b"sglang")):
            found = describe(pid)
            if found is not None:
                print(json.dumps(found))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
