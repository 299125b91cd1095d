"""Runs over SSH with real processes in the server's place: what holds for them holds for whatever a profile starts."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.box import Box, connect
from helpers.box.targets import Target
from helpers.owner import whoami
from helpers.paths import ROOT
from helpers.serving import Profile, Run, RunRecord
from helpers.serving.records import SCHEMA
from helpers.serving.remote import ask
from helpers.source.patches import PatchReport
from helpers.uploads import upload

#: Answers /health after ``loading`` seconds, with a child in its group.
SERVER = """
import subprocess, sys, time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
print("Load weight begin", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(float(sys.argv[2]))
open("health", "w").close()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), SimpleHTTPRequestHandler).serve_forever()
"""
#: Says many lines and ends.
TALKER = """
import sys, time
for number in range(int(sys.argv[2])):
    print("line", number, flush=True)
    time.sleep(0.005)
"""


def start(
    box: Box,
    run: str,
    code: str,
    *words: str,
    owner: str | None = None,
    checkout: str = "",
    patches: Sequence[PatchReport] = (),
    journal: int | None = None,
    **of_profile: Any,
) -> Run:
    """``python -c code PORT words...`` as a run of its own id, started with ``patches`` in ``checkout``."""
    port = ask(box, "probe", {"host": "127.0.0.1", "port": None, "folders": []}, python=sys.executable)["port"]
    argv = [sys.executable, "-c", code, str(port), *words]
    profile = Profile(
        name="plain", engine="sglang==0.5.9", model="~/models/target", python=sys.executable, **of_profile
    )
    record = {
        "schema": SCHEMA,
        "id": run,
        "profile": profile.model_dump(mode="json"),
        "argv": argv,
        "env": {},
        "host": "127.0.0.1",
        "port": port,
        "owner": owner or whoami(),
        "engine": {"name": "none", "version": None, "checkout": checkout, "python": sys.executable},
        "patches": [
            {"name": p.name, "sha256": p.patch_sha256, "files": {file.path: file.sha256 for file in p.files}}
            for p in patches
        ],
        "code": upload(box, python=sys.executable),
    }
    request = {"record": record, "argv": argv, "env": {}, "prepend": {}, "draft": None, "folders": []}
    request["journal"] = journal
    return Run(box, RunRecord.model_validate(ask(box, "start", request, python=sys.executable)))


def to_json(target: Target) -> str:
    """A target for another process."""
    return json.dumps(dataclasses.asdict(target), default=str)


def from_json(text: str) -> Target:
    """The target again."""
    fields: dict[str, Any] = json.loads(text)
    for name in ("identity_files", "known_hosts"):
        fields[name] = tuple(Path(path) for path in fields[name])
    return Target(**fields)


def notebook(target: str, run: str, loading: str, on_interrupt: str) -> None:
    """What another Python process does: start a server and wait for it."""
    with connect(from_json(target)) as box:
        found = start(box, run, SERVER, loading)
        print("started", flush=True)
        found.wait_ready(60, progress=False, on_interrupt="leave" if on_interrupt == "leave" else "stop")
        print("ready", flush=True)


#: The words that make a Python process run `notebook`, in `ROOT`.
NOTEBOOK = [sys.executable, str(Path(__file__)), str(ROOT)]

if __name__ == "__main__":
    notebook(*sys.argv[2:])
